//! Load reports of parameter servers, which come about once a second, and the rates between them.

use std::collections::BTreeMap;
use std::time::Duration;

use flexor_engine::ps_membership::ServerId;
use flexor_wire::master::v1 as wire;
use serde::Serialize;

/// Rates that are older, or span a longer time, are dropped: the server was stopped, or the clock jumped.
const MAX_AGE: Duration = Duration::from_secs(5);

/// The last report of each server.
#[derive(Debug, Default)]
pub(super) struct Loads(BTreeMap<ServerId, LoadReport>);

#[derive(Debug)]
struct LoadReport {
    load: wire::ServerLoad,
    at: Duration,
    rates: Option<Rates>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    pulls: f64,
    pushes: f64,
    cpus: f64,
}

/// Load of a server; fields are unset before its first report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadStatus {
    /// Rows, including those of backups.
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
    pub pulls: Option<u64>,
    pub pushes: Option<u64>,
    /// Rows and slices skipped because their gradients were not finite.
    pub skipped: Option<u64>,
    /// The longest time that a partition was frozen for a hand-over.
    pub longest_freeze_seconds: Option<f64>,
    pub cpu_seconds: Option<f64>,
    pub pulls_per_second: Option<f64>,
    pub pushes_per_second: Option<f64>,
    /// Number of processors in use.
    pub cpus: Option<f64>,
}

impl Loads {
    /// Records a report. Earlier incarnations are forgotten.
    pub(super) fn record(&mut self, server: &ServerId, load: wire::ServerLoad, now: Duration) {
        let rates = self.0.get(server).and_then(|before| rates(before, &load, now));
        self.0.retain(|known, _| known.name != server.name || known.incarnation >= server.incarnation);
        self.0.insert(server.clone(), LoadReport { load, at: now, rates });
    }

    /// The last report of a server's latest incarnation, and when it came.
    pub(super) fn last_of(&self, name: &str) -> Option<(Duration, wire::ServerLoad)> {
        let of_name = self.0.iter().filter(|(server, _)| &*server.name == name);
        of_name.max_by_key(|(server, _)| server.incarnation).map(|(_, report)| (report.at, report.load))
    }

    pub(super) fn of(&self, server: &ServerId, now: Duration) -> LoadStatus {
        let Some(LoadReport { load, at, rates }) = self.0.get(server) else { return LoadStatus::default() };
        let rates = rates.filter(|_| now.saturating_sub(*at) <= MAX_AGE);
        LoadStatus {
            rows: Some(load.rows),
            bytes: Some(load.bytes),
            pulls: Some(load.pulls),
            pushes: Some(load.pushes),
            skipped: Some(load.skipped),
            longest_freeze_seconds: Some(Duration::from_micros(load.longest_freeze_us).as_secs_f64()),
            cpu_seconds: Some(Duration::from_micros(load.cpu_us).as_secs_f64()),
            pulls_per_second: rates.map(|rates| rates.pulls),
            pushes_per_second: rates.map(|rates| rates.pushes),
            cpus: rates.map(|rates| rates.cpus),
        }
    }
}

fn rates(before: &LoadReport, load: &wire::ServerLoad, now: Duration) -> Option<Rates> {
    let over = now.saturating_sub(before.at);
    if over.is_zero() || over > MAX_AGE {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a pace for people to read")]
    let per_second = |before: u64, after: u64| after.saturating_sub(before) as f64 / over.as_secs_f64();
    Some(Rates {
        pulls: per_second(before.load.pulls, load.pulls),
        pushes: per_second(before.load.pushes, load.pushes),
        cpus: per_second(before.load.cpu_us, load.cpu_us) / 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn load(pulls: u64, cpu_us: u64) -> wire::ServerLoad {
        wire::ServerLoad { rows: 10, pulls, cpu_us, ..wire::ServerLoad::default() }
    }

    #[test]
    fn the_load_of_a_server_without_a_report_is_unknown() {
        let (mut loads, server) = (Loads::default(), ServerId::new("ps-0", 1));
        assert_eq!(loads.of(&server, SECOND), LoadStatus::default());
        loads.record(&server, load(0, 0), SECOND);
        let once = loads.of(&server, SECOND);
        assert_eq!((once.rows, once.pulls, once.pulls_per_second, once.cpus), (Some(10), Some(0), None, None));
    }

    #[test]
    fn rates_are_taken_between_two_reports_and_expire() {
        let (mut loads, server) = (Loads::default(), ServerId::new("ps-0", 1));
        loads.record(&server, load(100, 0), SECOND);
        loads.record(&server, load(150, 250_000), SECOND * 2);
        let known = loads.of(&server, SECOND * 3);
        assert_eq!((known.pulls_per_second, known.cpus), (Some(50.0), Some(0.25)));
        let later = loads.of(&server, SECOND * 30);
        assert_eq!((later.pulls, later.pulls_per_second), (Some(150), None));
    }

    #[test]
    fn a_later_incarnation_starts_anew() {
        let mut loads = Loads::default();
        let (first, second) = (ServerId::new("ps-0", 1), ServerId::new("ps-0", 2));
        loads.record(&first, load(100, 0), SECOND);
        loads.record(&second, load(3, 0), SECOND * 2);
        assert_eq!(loads.of(&second, SECOND * 2).pulls_per_second, None);
        assert_eq!(loads.of(&first, SECOND * 2), LoadStatus::default());
    }
}
