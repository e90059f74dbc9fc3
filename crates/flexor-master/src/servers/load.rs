//! What parameter servers say of themselves once a second, and how busy that makes them.

use std::collections::BTreeMap;
use std::time::Duration;

use flexor_engine::psmembers::ServerId;
use flexor_wire::master::v1 as wire;
use serde::Serialize;

/// A pace that lies longer back, or was taken over a longer time, is none: the server was stopped, or the clock leapt.
const FRESH: Duration = Duration::from_secs(5);

/// What each server has said last.
#[derive(Debug, Default)]
pub(super) struct Loads(BTreeMap<ServerId, Said>);

#[derive(Debug)]
struct Said {
    load: wire::ServerLoad,
    at: Duration,
    paces: Option<Paces>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Paces {
    pulls: f64,
    pushes: f64,
    cpus: f64,
}

/// How much a server keeps and does; what it has not said is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadStatus {
    /// Rows that it keeps, copies included.
    pub rows: Option<u64>,
    /// Bytes that it keeps.
    pub bytes: Option<u64>,
    /// How often it was asked for values.
    pub pulls: Option<u64>,
    /// How often it was sent gradients.
    pub pushes: Option<u64>,
    /// Rows and slices whose gradients were left out because they were not finite.
    pub left_out: Option<u64>,
    /// The longest that a partition of it took nothing while it was handed over.
    pub longest_freeze_seconds: Option<f64>,
    /// Processor time so far.
    pub cpu_seconds: Option<f64>,
    /// How often it is asked for values.
    pub pulls_per_second: Option<f64>,
    /// How often it is sent gradients.
    pub pushes_per_second: Option<f64>,
    /// How many processors it uses.
    pub cpus: Option<f64>,
}

impl Loads {
    /// A server says what it has done. Its earlier lives are forgotten.
    pub(super) fn take(&mut self, server: &ServerId, load: wire::ServerLoad, now: Duration) {
        let paces = self.0.get(server).and_then(|before| paces(before, &load, now));
        self.0.retain(|known, _| known.name != server.name || known.incarnation >= server.incarnation);
        self.0.insert(server.clone(), Said { load, at: now, paces });
    }

    /// What is known of a server.
    pub(super) fn of(&self, server: &ServerId, now: Duration) -> LoadStatus {
        let Some(Said { load, at, paces }) = self.0.get(server) else { return LoadStatus::default() };
        let paces = paces.filter(|_| now.saturating_sub(*at) <= FRESH);
        LoadStatus {
            rows: Some(load.rows),
            bytes: Some(load.bytes),
            pulls: Some(load.pulls),
            pushes: Some(load.pushes),
            left_out: Some(load.left_out),
            longest_freeze_seconds: Some(Duration::from_micros(load.longest_freeze_us).as_secs_f64()),
            cpu_seconds: Some(Duration::from_micros(load.cpu_us).as_secs_f64()),
            pulls_per_second: paces.map(|paces| paces.pulls),
            pushes_per_second: paces.map(|paces| paces.pushes),
            cpus: paces.map(|paces| paces.cpus),
        }
    }
}

fn paces(before: &Said, load: &wire::ServerLoad, now: Duration) -> Option<Paces> {
    let over = now.saturating_sub(before.at);
    if over.is_zero() || over > FRESH {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a pace for people to read")]
    let per_second = |before: u64, after: u64| after.saturating_sub(before) as f64 / over.as_secs_f64();
    Some(Paces {
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
    fn a_server_that_has_said_nothing_is_not_idle_but_unknown() {
        let (mut loads, server) = (Loads::default(), ServerId::new("ps-0", 1));
        assert_eq!(loads.of(&server, SECOND), LoadStatus::default());
        loads.take(&server, load(0, 0), SECOND);
        let once = loads.of(&server, SECOND);
        assert_eq!((once.rows, once.pulls, once.pulls_per_second, once.cpus), (Some(10), Some(0), None, None));
    }

    #[test]
    fn the_pace_lies_between_two_words_and_grows_old() {
        let (mut loads, server) = (Loads::default(), ServerId::new("ps-0", 1));
        loads.take(&server, load(100, 0), SECOND);
        loads.take(&server, load(150, 250_000), SECOND * 2);
        let known = loads.of(&server, SECOND * 3);
        assert_eq!((known.pulls_per_second, known.cpus), (Some(50.0), Some(0.25)));
        let later = loads.of(&server, SECOND * 30);
        assert_eq!((later.pulls, later.pulls_per_second), (Some(150), None));
    }

    #[test]
    fn a_later_life_begins_anew() {
        let mut loads = Loads::default();
        let (first, second) = (ServerId::new("ps-0", 1), ServerId::new("ps-0", 2));
        loads.take(&first, load(100, 0), SECOND);
        loads.take(&second, load(3, 0), SECOND * 2);
        assert_eq!(loads.of(&second, SECOND * 2).pulls_per_second, None);
        assert_eq!(loads.of(&first, SECOND * 2), LoadStatus::default());
    }
}
