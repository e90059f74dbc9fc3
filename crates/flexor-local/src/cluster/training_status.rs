//! How a job's training stands, as its master says, and how fast it goes, which two of its words tell.

mod evaluations;
mod learning;
mod pace;
mod servers;

use std::time::Duration;

use flexor_model::UnixTime;
use flexor_wire::master::v1 as wire;
use serde::Serialize;

pub use self::evaluations::Evaluations;
pub use self::learning::{Learning, Scores};
use self::pace::{Over, Pace};
pub use self::servers::{PsClusterStatus, PsServerStatus, Updates};

/// What the paces of a job are taken over.
const PACE_OVER: Over = Over { next: Duration::from_millis(500), most: Duration::from_secs(2) };

/// How training stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrainingStatus {
    /// The round of the world, if there is one.
    pub round: Option<u64>,
    /// How many nodes are in it.
    pub nodes: u32,
    /// It has to meet again.
    pub meeting: bool,
    /// The furthest step that a node has reported.
    pub step: Option<f64>,
    /// How many steps a second, where they are reported.
    pub steps_per_second: Option<f64>,
    /// Of all datasets together, where there are any.
    pub records: Option<Records>,
    /// How many records a second are accounted for.
    pub records_per_second: Option<f64>,
    /// How often the program has failed so far.
    pub program_failures: u32,
    /// How well the model does, where programs say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
    /// Measurements of the model while it is trained, where there were some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluations: Option<Evaluations>,
    /// The parameter servers, where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<PsClusterStatus>,
    /// What the paces are taken from.
    #[serde(skip)]
    step_pace: Option<Pace>,
    #[serde(skip)]
    records_pace: Option<Pace>,
}

/// Counts of records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Records {
    /// All of the epochs that have begun.
    pub expected: u64,
    /// Acknowledged.
    pub accounted: u64,
    /// Taken out, because the program fails of them.
    pub quarantined: u64,
    /// Gone through a second time, at most.
    pub repeated: u64,
    /// Accounted for and opened again by a restore.
    pub rewound: u64,
    /// Accounted for, though they are damaged or mean nothing, and were left out of their batches.
    pub left_out: u64,
    /// All epochs of all datasets are finished.
    pub finished: bool,
    /// All of all epochs, also of those that have not begun.
    pub total: u64,
}

impl TrainingStatus {
    /// What a master says now, after what it said before.
    pub(super) fn after(before: Option<&TrainingStatus>, said: &wire::TrainingStatus, now: UnixTime) -> Self {
        let records = said.records.map(|records| Records {
            expected: records.expected,
            accounted: records.accounted,
            quarantined: records.quarantined,
            repeated: records.repeated,
            rewound: records.rewound,
            left_out: records.skipped_records,
            finished: records.finished,
            total: records.total.max(records.expected),
        });
        let mut before = before.cloned().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "a pace for people to read")]
        let accounted = records.map(|records| records.accounted as f64);
        let heard = |before, value: Option<f64>| value.map(|value| Pace::heard(before, value, PACE_OVER, now));
        let (step_pace, records_pace) = (heard(before.step_pace, said.step), heard(before.records_pace, accounted));
        Self {
            round: said.round,
            nodes: said.nodes,
            meeting: said.meeting,
            step: said.step,
            steps_per_second: step_pace.and_then(|pace| pace.per_second(now)),
            records,
            records_per_second: records_pace.and_then(|pace| pace.per_second(now)),
            program_failures: said.program_failures,
            learning: Learning::after(before.learning, said.learning),
            evaluations: Evaluations::after(before.evaluations.take(), said.evaluations.clone()),
            servers: PsClusterStatus::after(before.servers.take(), said.servers.as_ref(), now),
            step_pace,
            records_pace,
        }
    }

    /// The same at a later moment, when nothing more has been heard: what does not move stands still.
    pub fn as_of(&self, now: UnixTime) -> Self {
        let mut later = self.clone();
        if let Some(pace) = self.step_pace {
            later.steps_per_second = pace.per_second(now);
        }
        if let Some(pace) = self.records_pace {
            later.records_per_second = pace.per_second(now);
        }
        later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(step: f64, accounted: u64) -> wire::TrainingStatus {
        let records = wire::Records { expected: 1000, accounted, ..wire::Records::default() };
        let (round, records) = (Some(1), Some(records));
        wire::TrainingStatus { round, nodes: 2, step: Some(step), records, ..wire::TrainingStatus::default() }
    }

    #[test]
    fn the_pace_is_what_lies_between_two_words() {
        let first = TrainingStatus::after(None, &said(10.0, 0), UnixTime::from_secs(10));
        assert_eq!((first.steps_per_second, first.records_per_second), (None, None));
        let soon = TrainingStatus::after(Some(&first), &said(11.0, 5), UnixTime::from_millis(10_400));
        assert_eq!((soon.step, soon.steps_per_second), (Some(11.0), None));
        let later = TrainingStatus::after(Some(&soon), &said(30.0, 100), UnixTime::from_secs(14));
        assert_eq!((later.steps_per_second, later.records_per_second), (Some(5.0), Some(25.0)));
    }

    #[test]
    fn a_program_that_tells_of_itself_only_now_and_then_does_not_stand_still_between() {
        let mut training = TrainingStatus::after(None, &said(0.0, 0), UnixTime::EPOCH);
        for second in 1_u32..30 {
            let told = f64::from(second / 5 * 50);
            training = TrainingStatus::after(Some(&training), &said(told, 0), UnixTime::from_secs(second.into()));
            assert!(second < 5 || training.steps_per_second == Some(10.0), "{second}: {training:?}");
        }
        let still = TrainingStatus::after(Some(&training), &said(250.0, 0), UnixTime::from_secs(60));
        assert_eq!(still.steps_per_second, Some(0.0));
    }

    #[test]
    fn a_job_of_which_nothing_is_heard_stands_still() {
        let mut training = TrainingStatus::after(None, &said(0.0, 0), UnixTime::EPOCH);
        for second in 1_u32..5 {
            let word = said(f64::from(second), u64::from(second) * 100);
            training = TrainingStatus::after(Some(&training), &word, UnixTime::from_secs(second.into()));
        }
        let paces = |seconds| {
            let later = training.as_of(UnixTime::from_secs(seconds));
            (later.steps_per_second, later.records_per_second)
        };
        assert_eq!(paces(5), (Some(1.0), Some(100.0)));
        assert_eq!(paces(8), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn a_rewound_job_has_no_pace_until_it_goes_on() {
        let first = TrainingStatus::after(None, &said(10.0, 50), UnixTime::from_secs(10));
        let rewound = TrainingStatus::after(Some(&first), &said(2.0, 10), UnixTime::from_secs(13));
        assert_eq!((rewound.steps_per_second, rewound.records_per_second), (None, None));
        let on = TrainingStatus::after(Some(&rewound), &said(8.0, 40), UnixTime::from_secs(16));
        assert_eq!((on.steps_per_second, on.records_per_second), (Some(2.0), Some(10.0)));
    }
}
