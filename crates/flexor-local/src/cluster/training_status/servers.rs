//! How a job's parameter servers stand, as its master says: who keeps what, how busy they are, and what came of the
//! updates.

use std::time::Duration;

use flexor_model::UnixTime;
use flexor_wire::master::v1 as wire;
use serde::Serialize;

use super::pace::{Over, Pace};

/// Servers speak about once a second, and a pace is taken over at least this long.
const PACE_OVER: Over = Over { next: Duration::from_millis(800), most: Duration::from_millis(800) };

/// The servers of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PsClusterStatus {
    /// The number of the map.
    pub epoch: u64,
    /// Partitions that nobody keeps at present.
    pub unowned: u32,
    /// How often partitions of which no copy was left had to begin again.
    pub restorations: u64,
    /// Every partition is kept as often as it should be.
    pub redundant: bool,
    /// Every partition is where it should be.
    pub settled: bool,
    /// The checkpoint that the job went on from when it began, in words; empty where it found none.
    #[serde(skip)]
    pub went_on_from: String,
    /// Those that it found and could not read, in words.
    #[serde(skip)]
    pub passed_over: Vec<String>,
    /// Why the last attempt at a checkpoint came to nothing; empty where it did not.
    #[serde(skip)]
    pub checkpoint_failure: String,
    /// Each of them that is here or keeps something.
    pub each: Vec<PsServerStatus>,
    /// What came of the pushes, once workers have said so.
    pub updates: Option<Updates>,
}

/// One life of a server. What it has not said is not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PsServerStatus {
    /// Its name.
    pub name: String,
    /// Which life: the time of its start, in milliseconds since the Unix epoch.
    pub incarnation: u64,
    /// It can be reached.
    pub here: bool,
    /// How many partitions it answers for.
    pub partitions: u32,
    /// Of how many it keeps a copy.
    pub copies: u32,
    /// Rows that it keeps, copies included.
    pub rows: Option<u64>,
    /// Bytes that it keeps.
    pub bytes: Option<u64>,
    /// How often it was asked for values.
    pub pulls: Option<u64>,
    /// How often it was sent gradients.
    pub pushes: Option<u64>,
    /// Processor time so far.
    pub cpu_seconds: Option<f64>,
    /// The longest that a partition of it took nothing while it was handed over.
    pub longest_freeze_seconds: Option<f64>,
    /// How often it is asked for values.
    pub pulls_per_second: Option<f64>,
    /// How often it is sent gradients.
    pub pushes_per_second: Option<f64>,
    /// How many processors it uses.
    pub cpus: Option<f64>,
    /// What the paces are taken from: pulls, pushes, processor time.
    #[serde(skip)]
    paces: [Option<Pace>; 3],
}

/// Updates of partitions: a batch is one update of each partition that something of it is for; in steps, a step is one of
/// every partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Updates {
    /// In the model.
    pub applied: u64,
    /// Parts of pushes that were sent again, and not applied again: of batches in either case.
    pub repeats: u64,
    /// More updates of a partition than there are batches, or than steps are taken: has to be 0.
    pub reapplied: u64,
    /// Answered for, and in no model any more.
    pub lost: u64,
    /// Training goes in steps.
    pub in_steps: bool,
}

impl PsClusterStatus {
    /// What a master says now, after what it said before. One that was started again has yet to hear from workers.
    pub(super) fn after(before: Option<Self>, said: Option<&wire::PsClusterStatus>, now: UnixTime) -> Option<Self> {
        let known = before.as_ref().and_then(|before| before.updates);
        let Some(said) = said else { return before };
        let (went_on_from, passed_over, each) =
            before.map(|before| (before.went_on_from, before.passed_over, before.each)).unwrap_or_default();
        let heard = said.updates.map(|updates| {
            let known = known.unwrap_or_default();
            // It may not have heard from everybody; only what is lost is not in the model any more.
            let applied = if updates.lost > known.lost { 0 } else { known.applied };
            Updates {
                applied: updates.applied.max(applied),
                repeats: updates.repeats.max(known.repeats),
                reapplied: updates.reapplied,
                lost: updates.lost,
                in_steps: updates.in_steps,
            }
        });
        Some(Self {
            epoch: said.epoch,
            unowned: said.unowned,
            restorations: said.restorations,
            redundant: said.redundant,
            settled: said.settled,
            went_on_from: if said.went_on_from.is_empty() { went_on_from } else { said.went_on_from.clone() },
            passed_over: if said.passed_over.is_empty() { passed_over } else { said.passed_over.clone() },
            checkpoint_failure: said.checkpoint_failure.clone(),
            each: said.servers.iter().map(|said| PsServerStatus::after(&each, said, now)).collect(),
            updates: heard.or(known),
        })
    }
}

impl PsServerStatus {
    /// What a master says of a server now, after what it said of all before. How busy the server is follows from what it
    /// has done in all; the master says whether it is still heard.
    #[expect(clippy::cast_precision_loss, reason = "paces for people to read")]
    fn after(before: &[Self], said: &wire::PsServerStatus, now: UnixTime) -> Self {
        let is_it = |known: &&Self| known.name == said.name && known.incarnation == said.incarnation;
        let known = before.iter().find(is_it).map(|known| known.paces).unwrap_or_default();
        let counts = [said.pulls.map(|pulls| pulls as f64), said.pushes.map(|pushes| pushes as f64), said.cpu_seconds];
        let mut paces = [None; 3];
        for (pace, (before, count)) in paces.iter_mut().zip(known.into_iter().zip(counts)) {
            *pace = count.map(|count| Pace::heard(before, count, PACE_OVER, now));
        }
        let is_heard = said.cpus.is_some();
        let [pulls_per_second, pushes_per_second, cpus] =
            paces.map(|pace: Option<Pace>| pace.filter(|_| is_heard)?.per_second(now));
        Self {
            name: said.name.clone(),
            incarnation: said.incarnation,
            here: said.here,
            partitions: said.partitions,
            copies: said.copies,
            rows: said.rows,
            bytes: said.bytes,
            pulls: said.pulls,
            pushes: said.pushes,
            cpu_seconds: said.cpu_seconds,
            longest_freeze_seconds: said.longest_freeze_seconds,
            pulls_per_second,
            pushes_per_second,
            cpus,
            paces,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(before: Option<PsClusterStatus>, said: Option<&wire::PsClusterStatus>) -> Option<PsClusterStatus> {
        PsClusterStatus::after(before, said, UnixTime::from_secs(1))
    }

    #[test]
    fn what_a_master_before_this_one_had_heard_is_not_forgotten() {
        let updates = |applied, repeats| wire::Updates { applied, repeats, ..wire::Updates::default() };
        let said = |updates| wire::PsClusterStatus { epoch: 3, updates, ..wire::PsClusterStatus::default() };
        let first = after(None, Some(&said(Some(updates(100, 7))))).unwrap();
        let started_again = after(Some(first), Some(&said(None))).unwrap();
        assert_eq!(started_again.updates, Some(Updates { applied: 100, repeats: 7, ..Updates::default() }));
        let later = after(Some(started_again), Some(&said(Some(updates(120, 2))))).unwrap();
        assert_eq!(later.updates, Some(Updates { applied: 120, repeats: 7, ..Updates::default() }));
        let fewer = after(Some(later.clone()), Some(&said(Some(updates(50, 0))))).unwrap();
        assert_eq!(fewer.updates, later.updates, "it has not heard from everybody yet");
        let lost = wire::Updates { lost: 90, ..updates(30, 0) };
        let lost = after(Some(later.clone()), Some(&said(Some(lost)))).unwrap();
        assert_eq!(lost.updates.unwrap().applied, 30);
        assert_eq!(after(Some(later.clone()), None), Some(later), "no servers have come back yet");
    }

    #[test]
    fn words_that_come_close_together_make_no_server_busy() {
        let mut servers = None;
        let mut told = Vec::new();
        for (at, pulls, cpu_seconds) in
            [(0, 0, 0.0), (1000, 100, 0.5), (2000, 200, 1.0), (2010, 205, 1.05), (3000, 300, 1.5)]
        {
            // As the master has it, over whatever lies between two words.
            let said = wire::PsServerStatus {
                name: "ps-0".to_owned(),
                incarnation: 7,
                pulls: Some(pulls),
                cpu_seconds: Some(cpu_seconds),
                cpus: (at > 0).then_some(5.0),
                ..wire::PsServerStatus::default()
            };
            let said = wire::PsClusterStatus { servers: vec![said], ..wire::PsClusterStatus::default() };
            servers = PsClusterStatus::after(servers, Some(&said), UnixTime::from_millis(at));
            let server = &servers.as_ref().unwrap().each[0];
            told.push((server.pulls_per_second, server.cpus));
        }
        let busy = (Some(100.0), Some(0.5));
        assert_eq!(told, [(None, None), busy, busy, busy, busy]);
        assert_eq!(servers.unwrap().each[0].pushes_per_second, None, "it never said");
    }
}
