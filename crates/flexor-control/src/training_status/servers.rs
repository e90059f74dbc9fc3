//! The parameter servers of a job as its master reports them: which partitions each keeps, their load, and the updates.

use std::time::Duration;

use flexor_model::UnixTime;
use flexor_wire::master::v1 as wire;
use serde::Serialize;

use super::rate::{Rate, Window};

/// Servers report about once a second.
const RATE_WINDOW: Window = Window { next: Duration::from_millis(800), most: Duration::from_millis(800) };

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PsClusterStatus {
    /// The map epoch.
    pub epoch: u64,
    /// Partitions without a primary.
    pub unowned: u32,
    /// How often partitions without any replica were restored.
    pub restorations: u64,
    /// Every partition has as many replicas as it should have.
    pub redundant: bool,
    /// Every partition is on the server where it should be.
    pub settled: bool,
    /// The checkpoint that the job started from, in words; empty if it found none.
    #[serde(skip)]
    pub went_on_from: String,
    /// The checkpoints that it could not read then, in words.
    #[serde(skip)]
    pub passed_over: Vec<String>,
    /// Why the last checkpoint failed; empty if it did not.
    #[serde(skip)]
    pub checkpoint_failure: String,
    /// The servers that can be reached or keep partitions.
    pub each: Vec<PsServerStatus>,
    /// Counted from the pushes, once workers have reported them.
    pub updates: Option<Updates>,
}

/// One incarnation of a server. Numbers that it has not reported are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PsServerStatus {
    pub name: String,
    /// The time of its start, in milliseconds since the Unix epoch.
    pub incarnation: u64,
    /// The server can be reached.
    pub here: bool,
    /// The partitions of which it is the primary.
    pub partitions: u32,
    /// The partitions of which it is the backup.
    pub copies: u32,
    /// The rows that it keeps, backups included.
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
    pub pulls: Option<u64>,
    pub pushes: Option<u64>,
    /// Used so far.
    pub cpu_seconds: Option<f64>,
    /// The longest freeze of a partition while it moved.
    pub longest_freeze_seconds: Option<f64>,
    pub pulls_per_second: Option<f64>,
    pub pushes_per_second: Option<f64>,
    /// The processors that it uses.
    pub cpus: Option<f64>,
    /// Of pulls, pushes and processor time.
    #[serde(skip)]
    rates: [Option<Rate>; 3],
}

/// Updates of partitions. A batch is one update of each partition that it touches; in synchronous training a step is one
/// update of every partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Updates {
    /// Part of the model.
    pub applied: u64,
    /// Parts of pushes that were sent again and not applied again. Counted by batch, in synchronous training too.
    pub repeats: u64,
    /// Updates of a partition beyond its batches or steps; has to be 0.
    pub reapplied: u64,
    /// Acknowledged, and not part of the model any more.
    pub lost: u64,
    /// Training is synchronous.
    pub synchronous: bool,
}

impl PsClusterStatus {
    /// The status after a report of the master. A restarted master has no reports of workers yet.
    pub(super) fn after(before: Option<Self>, reported: Option<&wire::PsClusterStatus>, now: UnixTime) -> Option<Self> {
        let known = before.as_ref().and_then(|before| before.updates);
        let Some(reported) = reported else { return before };
        let (went_on_from, passed_over, each) =
            before.map(|before| (before.went_on_from, before.passed_over, before.each)).unwrap_or_default();
        let updates = reported.updates.map(|updates| {
            let known = known.unwrap_or_default();
            // Some workers may not have reported to this master. Only a loss makes the count smaller.
            let applied = if updates.lost > known.lost { 0 } else { known.applied };
            Updates {
                applied: updates.applied.max(applied),
                repeats: updates.repeats.max(known.repeats),
                reapplied: updates.reapplied,
                lost: updates.lost,
                synchronous: updates.synchronous,
            }
        });
        Some(Self {
            epoch: reported.epoch,
            unowned: reported.unowned,
            restorations: reported.restorations,
            redundant: reported.redundant,
            settled: reported.settled,
            went_on_from: if reported.went_on_from.is_empty() { went_on_from } else { reported.went_on_from.clone() },
            passed_over: if reported.passed_over.is_empty() { passed_over } else { reported.passed_over.clone() },
            checkpoint_failure: reported.checkpoint_failure.clone(),
            each: reported.servers.iter().map(|reported| PsServerStatus::after(&each, reported, now)).collect(),
            updates: updates.or(known),
        })
    }
}

impl PsServerStatus {
    /// The status of one server after a report of the master. Its load follows from its totals; the master reports no CPU
    /// use of a server that has fallen silent.
    #[expect(clippy::cast_precision_loss, reason = "rates for people to read")]
    fn after(before: &[Self], reported: &wire::PsServerStatus, now: UnixTime) -> Self {
        let is_it = |known: &&Self| known.name == reported.name && known.incarnation == reported.incarnation;
        let known = before.iter().find(is_it).map(|known| known.rates).unwrap_or_default();
        let counts = [
            reported.pulls.map(|pulls| pulls as f64),
            reported.pushes.map(|pushes| pushes as f64),
            reported.cpu_seconds,
        ];
        let mut rates = [None; 3];
        for (rate, (before, count)) in rates.iter_mut().zip(known.into_iter().zip(counts)) {
            *rate = count.map(|count| Rate::after(before, count, RATE_WINDOW, now));
        }
        let is_reporting = reported.cpus.is_some();
        let [pulls_per_second, pushes_per_second, cpus] =
            rates.map(|rate: Option<Rate>| rate.filter(|_| is_reporting)?.per_second(now));
        Self {
            name: reported.name.clone(),
            incarnation: reported.incarnation,
            here: reported.here,
            partitions: reported.partitions,
            copies: reported.copies,
            rows: reported.rows,
            bytes: reported.bytes,
            pulls: reported.pulls,
            pushes: reported.pushes,
            cpu_seconds: reported.cpu_seconds,
            longest_freeze_seconds: reported.longest_freeze_seconds,
            pulls_per_second,
            pushes_per_second,
            cpus,
            rates,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(before: Option<PsClusterStatus>, reported: Option<&wire::PsClusterStatus>) -> Option<PsClusterStatus> {
        PsClusterStatus::after(before, reported, UnixTime::from_secs(1))
    }

    #[test]
    fn updates_reported_to_an_earlier_master_are_kept() {
        let updates = |applied, repeats| wire::Updates { applied, repeats, ..wire::Updates::default() };
        let report = |updates| wire::PsClusterStatus { epoch: 3, updates, ..wire::PsClusterStatus::default() };
        let first = after(None, Some(&report(Some(updates(100, 7))))).unwrap();
        let started_again = after(Some(first), Some(&report(None))).unwrap();
        assert_eq!(started_again.updates, Some(Updates { applied: 100, repeats: 7, ..Updates::default() }));
        let later = after(Some(started_again), Some(&report(Some(updates(120, 2))))).unwrap();
        assert_eq!(later.updates, Some(Updates { applied: 120, repeats: 7, ..Updates::default() }));
        let fewer = after(Some(later.clone()), Some(&report(Some(updates(50, 0))))).unwrap();
        assert_eq!(fewer.updates, later.updates, "not every worker has reported yet");
        let lost = wire::Updates { lost: 90, ..updates(30, 0) };
        let lost = after(Some(later.clone()), Some(&report(Some(lost)))).unwrap();
        assert_eq!(lost.updates.unwrap().applied, 30);
        assert_eq!(after(Some(later.clone()), None), Some(later), "no server has come back yet");
    }

    #[test]
    fn reports_close_together_show_no_high_load() {
        let mut servers = None;
        let mut loads = Vec::new();
        for (at, pulls, cpu_seconds) in
            [(0, 0, 0.0), (1000, 100, 0.5), (2000, 200, 1.0), (2010, 205, 1.05), (3000, 300, 1.5)]
        {
            // The master computes CPU use over the time between any two reports.
            let server = wire::PsServerStatus {
                name: "ps-0".to_owned(),
                incarnation: 7,
                pulls: Some(pulls),
                cpu_seconds: Some(cpu_seconds),
                cpus: (at > 0).then_some(5.0),
                ..wire::PsServerStatus::default()
            };
            let reported = wire::PsClusterStatus { servers: vec![server], ..wire::PsClusterStatus::default() };
            servers = PsClusterStatus::after(servers, Some(&reported), UnixTime::from_millis(at));
            let server = &servers.as_ref().unwrap().each[0];
            loads.push((server.pulls_per_second, server.cpus));
        }
        let busy = (Some(100.0), Some(0.5));
        assert_eq!(loads, [(None, None), busy, busy, busy, busy]);
        assert_eq!(servers.unwrap().each[0].pushes_per_second, None, "it never reported them");
    }
}
