//! The contents and the load of each parameter server, averaged over the time that workers used it.

use flexor_local::cluster::{PsServerStatus, TrainingStatus};
use serde::Serialize;

use crate::run::history::Sample;

/// A server at the end of the run. Figures that it did not report are `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerAccount {
    pub name: String,
    /// Number of partitions that it is the primary of.
    pub partitions: u32,
    /// Number of partitions that it is the backup of.
    pub backups: u32,
    /// Rows of all these partitions.
    pub rows: Option<u64>,
    /// Bytes of all these partitions.
    pub bytes: Option<u64>,
    /// Average since the first pull.
    pub pulls_per_second: Option<f64>,
    pub pushes_per_second: Option<f64>,
    /// Average number of CPUs in use.
    pub cpus: Option<f64>,
}

/// The figures of the current servers, from the samples of the run.
pub fn of(training: &TrainingStatus, samples: &[Sample]) -> Vec<ServerAccount> {
    let servers = training.servers.iter().flat_map(|servers| &servers.each);
    let account = |server: &PsServerStatus| {
        let average = LoadAverage::of(server, samples);
        let is_known = !reported_before_training(server, training);
        ServerAccount {
            name: server.name.clone(),
            partitions: server.partitions,
            backups: server.copies,
            rows: server.rows.filter(|_| is_known),
            bytes: server.bytes.filter(|_| is_known),
            pulls_per_second: average.as_ref().and_then(|average| average.per_second(|report| count(report.pulls))),
            pushes_per_second: average.as_ref().and_then(|average| average.per_second(|report| count(report.pushes))),
            cpus: average.as_ref().and_then(|average| average.per_second(|report| report.cpu_seconds)),
        }
    };
    servers.map(account).collect()
}

/// Whether the last report of a server is from before training. Servers report about once a second, so a short job may be
/// over before the next report.
fn reported_before_training(server: &PsServerStatus, training: &TrainingStatus) -> bool {
    let has_trained = training.records.is_some_and(|records| records.accounted > 0);
    let has_part = server.partitions > 0 || server.copies > 0;
    let is_untouched = server.rows == Some(0) && server.pulls.is_none_or(|pulls| pulls == 0);
    has_trained && has_part && is_untouched
}

#[expect(clippy::cast_precision_loss, reason = "a pace for people to read")]
fn count(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// The shortest time to average over. Servers report about once a second.
const LEAST_SECONDS: f64 = 0.8;

/// The first and the last report of a server, and the time between them.
struct LoadAverage<'a> {
    first: &'a PsServerStatus,
    last: &'a PsServerStatus,
    seconds: f64,
}

impl<'a> LoadAverage<'a> {
    fn of(server: &PsServerStatus, samples: &'a [Sample]) -> Option<Self> {
        let is_used = |report: &&PsServerStatus| {
            report.name == server.name
                && report.incarnation == server.incarnation
                && report.pulls.is_some_and(|pulls| pulls > 0)
        };
        let reports = samples.iter().filter_map(|sample| {
            let each = sample.training.servers.iter().flat_map(|servers| &servers.each);
            Some((sample.at, each.into_iter().find(is_used)?))
        });
        let mut reports: Vec<_> = reports.collect();
        // Samples repeat the last report until the next one arrives.
        reports.dedup_by_key(|(_, server)| (server.pulls, server.pushes, server.cpu_seconds));
        let ((from, first), (to, last)) = (*reports.first()?, *reports.last()?);
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
    fn load_is_averaged_from_the_first_use_on() {
        let samples = [
            sample(1.0, server(7, 900, 9.0)),
            sample(2.0, server(8, 0, 0.1)),
            sample(10.0, server(8, 10, 0.2)),
            sample(14.0, server(8, 410, 2.2)),
        ];
        let [account] = &of(&samples[3].training, &samples)[..] else { panic!("one server") };
        assert_eq!((account.pulls_per_second, account.cpus), (Some(100.0), Some(0.5)));
        assert_eq!(account.pushes_per_second, None, "it never reported pushes");
        let [once] = &of(&samples[2].training, &samples[..3])[..] else { panic!("one server") };
        assert_eq!((once.pulls_per_second, once.rows), (None, None));
    }

    #[test]
    fn rows_are_unknown_if_the_server_reported_only_before_training() {
        let rows = |rows: u64, pulls: u64, accounted: u64| {
            let mut server = server(7, pulls, 0.1);
            (server.partitions, server.rows, server.bytes) = (128, Some(rows), Some(64 * rows));
            let mut training = sample(1.0, server).training;
            training.records = Some(Records { accounted, ..Records::default() });
            let [account] = &of(&training, &[])[..] else { panic!("one server") };
            (account.rows, account.bytes)
        };
        assert_eq!(rows(0, 0, 20_000), (None, None));
        assert_eq!(rows(10, 0, 20_000), (Some(10), Some(640)), "it is a backup");
        assert_eq!(rows(0, 3, 20_000), (Some(0), Some(0)), "it was used, and has no rows");
        assert_eq!(rows(0, 0, 0), (Some(0), Some(0)), "nothing was trained");
    }

    #[test]
    fn the_load_of_a_server_with_one_report_is_unknown() {
        let samples: Vec<Sample> = [0.2, 0.4, 1.4].map(|at| sample(at, server(7, 90, 0.4))).into();
        let [once] = &of(&samples[2].training, &samples)[..] else { panic!("one server") };
        assert_eq!((once.pulls_per_second, once.cpus), (None, None));
        let soon = [sample(0.2, server(7, 90, 0.4)), sample(0.5, server(7, 95, 0.5))];
        let [soon] = &of(&soon[1].training, &soon)[..] else { panic!("one server") };
        assert_eq!(soon.cpus, None, "the time between the reports is too short");
    }
}
