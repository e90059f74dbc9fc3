//! How much each parameter server kept and did, over the time that it was used.

use flexor_local::cluster::{PsServerStatus, TrainingStatus};
use serde::Serialize;

use crate::run::history::Sample;

/// A server that was there at the end. What it has not said is not known.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerAccount {
    /// Its name.
    pub name: String,
    /// How many partitions it answers for.
    pub partitions: u32,
    /// Of how many it keeps a copy.
    pub copies: u32,
    /// Rows that it keeps, copies included.
    pub rows: Option<u64>,
    /// Bytes that it keeps.
    pub bytes: Option<u64>,
    /// How often it was asked for values, on average since the first time.
    pub pulls_per_second: Option<f64>,
    /// How often it was sent gradients.
    pub pushes_per_second: Option<f64>,
    /// How many processors it used.
    pub cpus: Option<f64>,
}

/// The servers that there are now, after what was seen of them.
pub fn of(training: &TrainingStatus, samples: &[Sample]) -> Vec<ServerAccount> {
    let servers = training.servers.iter().flat_map(|servers| &servers.each);
    let account = |server: &PsServerStatus| {
        let average = Average::of(server, samples);
        let is_known = !spoke_before_training(server, training);
        ServerAccount {
            name: server.name.clone(),
            partitions: server.partitions,
            copies: server.copies,
            rows: server.rows.filter(|_| is_known),
            bytes: server.bytes.filter(|_| is_known),
            pulls_per_second: average.as_ref().and_then(|average| average.per_second(|seen| count(seen.pulls))),
            pushes_per_second: average.as_ref().and_then(|average| average.per_second(|seen| count(seen.pushes))),
            cpus: average.as_ref().and_then(|average| average.per_second(|seen| seen.cpu_seconds)),
        }
    };
    servers.map(account).collect()
}

/// Whether a server was last heard before training reached it. It speaks about once a second: a short job is over before
/// it can tell what it keeps.
fn spoke_before_training(server: &PsServerStatus, training: &TrainingStatus) -> bool {
    let has_trained = training.records.is_some_and(|records| records.accounted > 0);
    let has_part = server.partitions > 0 || server.copies > 0;
    let is_untouched = server.rows == Some(0) && server.pulls.is_none_or(|pulls| pulls == 0);
    has_trained && has_part && is_untouched
}

#[expect(clippy::cast_precision_loss, reason = "a pace for people to read")]
fn count(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// Over less than this nobody can say how busy a server was: it speaks about once a second.
const LEAST_SECONDS: f64 = 0.8;

/// What a server said first and last of itself, and how long lies between.
struct Average<'a> {
    first: &'a PsServerStatus,
    last: &'a PsServerStatus,
    seconds: f64,
}

impl<'a> Average<'a> {
    fn of(server: &PsServerStatus, samples: &'a [Sample]) -> Option<Self> {
        let is_it = |seen: &&PsServerStatus| {
            seen.name == server.name
                && seen.incarnation == server.incarnation
                && seen.pulls.is_some_and(|pulls| pulls > 0)
        };
        let seen = samples.iter().filter_map(|sample| {
            let each = sample.training.servers.iter().flat_map(|servers| &servers.each);
            Some((sample.at, each.into_iter().find(is_it)?))
        });
        let mut seen: Vec<_> = seen.collect();
        // A sample in which nothing is new repeats what it said before.
        seen.dedup_by_key(|(_, server)| (server.pulls, server.pushes, server.cpu_seconds));
        let ((from, first), (to, last)) = (*seen.first()?, *seen.last()?);
        let seconds = to.saturating_sub(from).as_secs_f64();
        (seconds >= LEAST_SECONDS).then_some(Self { first, last, seconds })
    }

    fn per_second(&self, of: impl Fn(&PsServerStatus) -> Option<f64>) -> Option<f64> {
        Some((of(self.last)? - of(self.first)?) / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flexor_local::cluster::{PsClusterStatus, Records};

    use super::*;

    fn sample(seconds: f64, server: PsServerStatus) -> Sample {
        let mut training = TrainingStatus::default();
        training.servers = Some(PsClusterStatus { each: vec![server], ..PsClusterStatus::default() });
        Sample { at: flexor_model::UnixTime::EPOCH + Duration::from_secs_f64(seconds), training }
    }

    fn server(incarnation: u64, pulls: u64, cpu_seconds: f64) -> PsServerStatus {
        let mut server = PsServerStatus::default();
        server.name = "ps-0".to_owned();
        server.incarnation = incarnation;
        server.pulls = Some(pulls);
        server.cpu_seconds = Some(cpu_seconds);
        server
    }

    #[test]
    fn a_server_is_busy_from_when_it_is_first_used() {
        let samples = [
            sample(1.0, server(7, 900, 9.0)),
            sample(2.0, server(8, 0, 0.1)),
            sample(10.0, server(8, 10, 0.2)),
            sample(14.0, server(8, 410, 2.2)),
        ];
        let [account] = &of(&samples[3].training, &samples)[..] else { panic!("one server") };
        assert_eq!((account.pulls_per_second, account.cpus), (Some(100.0), Some(0.5)));
        assert_eq!(account.pushes_per_second, None, "it never said");
        let [once] = &of(&samples[2].training, &samples[..3])[..] else { panic!("one server") };
        assert_eq!((once.pulls_per_second, once.rows), (None, None));
    }

    #[test]
    fn what_a_server_keeps_is_unknown_where_it_spoke_only_before_training() {
        let rows = |rows: u64, pulls: u64, accounted: u64| {
            let mut server = server(7, pulls, 0.1);
            (server.partitions, server.rows, server.bytes) = (128, Some(rows), Some(64 * rows));
            let mut training = sample(1.0, server).training;
            training.records = Some(Records { accounted, ..Records::default() });
            let [account] = &of(&training, &[])[..] else { panic!("one server") };
            (account.rows, account.bytes)
        };
        assert_eq!(rows(0, 0, 20_000), (None, None));
        assert_eq!(rows(10, 0, 20_000), (Some(10), Some(640)), "copies are sent to it");
        assert_eq!(rows(0, 3, 20_000), (Some(0), Some(0)), "it was asked, and keeps nothing");
        assert_eq!(rows(0, 0, 0), (Some(0), Some(0)), "nothing was trained");
    }

    #[test]
    fn of_a_server_that_spoke_once_nobody_knows_how_busy_it_was() {
        let samples: Vec<Sample> = [0.2, 0.4, 1.4].map(|at| sample(at, server(7, 90, 0.4))).into();
        let [once] = &of(&samples[2].training, &samples)[..] else { panic!("one server") };
        assert_eq!((once.pulls_per_second, once.cpus), (None, None));
        let soon = [sample(0.2, server(7, 90, 0.4)), sample(0.5, server(7, 95, 0.5))];
        let [soon] = &of(&soon[1].training, &soon)[..] else { panic!("one server") };
        assert_eq!(soon.cpus, None, "too little time lies between");
    }
}
