//! The training status of a job: its world, step, records, model scores and parameter servers, for people to read.
//!
//! The master reports it over the feed. What needs two reports is added here: rates, and counts that survive a restart of
//! the master. Nothing is decided by it.

mod evaluations;
mod learning;
mod rate;
mod servers;

use std::time::Duration;

use flexor_model::UnixTime;
use flexor_wire::master::v1 as wire;
use serde::Serialize;

pub use self::evaluations::Evaluations;
pub use self::learning::{Learning, Scores};
use self::rate::{Rate, Window};
pub use self::servers::{PsClusterStatus, PsServerStatus, Updates};

const RATE_WINDOW: Window = Window { next: Duration::from_millis(500), most: Duration::from_secs(2) };

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrainingStatus {
    /// The round of the world; none while there is no world.
    pub round: Option<u64>,
    /// The nodes of the world.
    pub nodes: u32,
    /// The world has to meet again.
    pub meeting: bool,
    /// The furthest step that a node has reported.
    pub step: Option<f64>,
    pub steps_per_second: Option<f64>,
    /// Of all datasets together; none in a job without datasets.
    pub records: Option<Records>,
    /// The records that are accounted for in a second.
    pub records_per_second: Option<f64>,
    pub program_failures: u32,
    /// The scores of the model, if programs report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluations: Option<Evaluations>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<PsClusterStatus>,
    /// Of a job that sizes itself, once it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Why the master can journal nothing at present; empty while it can.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub journal_failure: String,
    /// What the last master could not read of its journal.
    #[serde(skip)]
    pub(crate) journal_loss: Option<wire::JournalLoss>,
    #[serde(skip)]
    step_rate: Option<Rate>,
    #[serde(skip)]
    records_rate: Option<Rate>,
}

/// The last measurement of a job that sizes itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    pub steps_per_second: f64,
    /// What keeps it from being greater.
    pub limited_by: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Records {
    /// The records of all epochs that have begun.
    pub expected: u64,
    /// Acknowledged.
    pub accounted: u64,
    /// Taken out of the epoch because the program fails on them.
    pub quarantined: u64,
    /// The most that may have been processed twice.
    pub repeated: u64,
    /// Accounted for, and opened again by a restore.
    pub rewound: u64,
    /// The most that damage of the journal opened again; part of `repeated`.
    pub reopened: u64,
    /// Accounted for, but skipped in their batches because they are damaged or cannot be parsed.
    pub left_out: u64,
    /// All epochs of all datasets are finished.
    pub finished: bool,
    /// The records of all epochs, also of those that have not begun.
    pub total: u64,
}

impl TrainingStatus {
    /// The status after a report of the master.
    pub(crate) fn after(before: Option<&TrainingStatus>, reported: &wire::TrainingStatus, now: UnixTime) -> Self {
        let records = reported.records.map(|records| Records {
            expected: records.expected,
            accounted: records.accounted,
            quarantined: records.quarantined,
            repeated: records.repeated,
            rewound: records.rewound,
            reopened: records.reopened,
            left_out: records.skipped_records,
            finished: records.finished,
            total: records.total.max(records.expected),
        });
        let mut before = before.cloned().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "a rate for people to read")]
        let accounted = records.map(|records| records.accounted as f64);
        let rate = |before, value: Option<f64>| value.map(|value| Rate::after(before, value, RATE_WINDOW, now));
        let (step_rate, records_rate) = (rate(before.step_rate, reported.step), rate(before.records_rate, accounted));
        Self {
            round: reported.round,
            nodes: reported.nodes,
            meeting: reported.meeting,
            step: reported.step,
            steps_per_second: step_rate.and_then(|rate| rate.per_second(now)),
            records,
            records_per_second: records_rate.and_then(|rate| rate.per_second(now)),
            program_failures: reported.program_failures,
            learning: Learning::after(before.learning, reported.learning),
            evaluations: Evaluations::after(before.evaluations.take(), reported.evaluations.clone()),
            servers: PsClusterStatus::after(before.servers.take(), reported.servers.as_ref(), now),
            pace: reported
                .pace
                .clone()
                .map(|wire::Pace { steps_per_second, limited_by }| Pace { steps_per_second, limited_by }),
            journal_failure: reported.journal_failure.clone(),
            journal_loss: reported.journal_loss.clone().or(before.journal_loss),
            step_rate,
            records_rate,
        }
    }

    /// The same at a later moment without further reports: rates of counts that do not grow become 0.
    pub fn as_of(&self, now: UnixTime) -> Self {
        let mut later = self.clone();
        if let Some(rate) = self.step_rate {
            later.steps_per_second = rate.per_second(now);
        }
        if let Some(rate) = self.records_rate {
            later.records_per_second = rate.per_second(now);
        }
        later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(step: f64, accounted: u64) -> wire::TrainingStatus {
        let records = wire::Records { expected: 1000, accounted, ..wire::Records::default() };
        let (round, records) = (Some(1), Some(records));
        wire::TrainingStatus { round, nodes: 2, step: Some(step), records, ..wire::TrainingStatus::default() }
    }

    #[test]
    fn a_rate_is_taken_between_two_reports() {
        let first = TrainingStatus::after(None, &report(10.0, 0), UnixTime::from_secs(10));
        assert_eq!((first.steps_per_second, first.records_per_second), (None, None));
        let soon = TrainingStatus::after(Some(&first), &report(11.0, 5), UnixTime::from_millis(10_400));
        assert_eq!((soon.step, soon.steps_per_second), (Some(11.0), None));
        let later = TrainingStatus::after(Some(&soon), &report(30.0, 100), UnixTime::from_secs(14));
        assert_eq!((later.steps_per_second, later.records_per_second), (Some(5.0), Some(25.0)));
    }

    #[test]
    fn a_program_that_reports_seldom_does_not_stand_still_between_reports() {
        let mut training = TrainingStatus::after(None, &report(0.0, 0), UnixTime::EPOCH);
        for second in 1_u32..30 {
            let step = f64::from(second / 5 * 50);
            training = TrainingStatus::after(Some(&training), &report(step, 0), UnixTime::from_secs(second.into()));
            assert!(second < 5 || training.steps_per_second == Some(10.0), "{second}: {training:?}");
        }
        let still = TrainingStatus::after(Some(&training), &report(250.0, 0), UnixTime::from_secs(60));
        assert_eq!(still.steps_per_second, Some(0.0));
    }

    #[test]
    fn a_job_without_reports_stands_still() {
        let mut training = TrainingStatus::after(None, &report(0.0, 0), UnixTime::EPOCH);
        for second in 1_u32..5 {
            let next = report(f64::from(second), u64::from(second) * 100);
            training = TrainingStatus::after(Some(&training), &next, UnixTime::from_secs(second.into()));
        }
        let rates = |seconds| {
            let later = training.as_of(UnixTime::from_secs(seconds));
            (later.steps_per_second, later.records_per_second)
        };
        assert_eq!(rates(5), (Some(1.0), Some(100.0)));
        assert_eq!(rates(8), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn a_rewound_job_has_no_rate_until_it_goes_on() {
        let first = TrainingStatus::after(None, &report(10.0, 50), UnixTime::from_secs(10));
        let rewound = TrainingStatus::after(Some(&first), &report(2.0, 10), UnixTime::from_secs(13));
        assert_eq!((rewound.steps_per_second, rewound.records_per_second), (None, None));
        let on = TrainingStatus::after(Some(&rewound), &report(8.0, 40), UnixTime::from_secs(16));
        assert_eq!((on.steps_per_second, on.records_per_second), (Some(2.0), Some(10.0)));
    }
}
