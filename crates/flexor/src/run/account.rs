//! How a job went, in numbers: what the summary prints and the report writes. Pure, from what was seen.

mod pace;
mod servers;

use flexor_engine::Cause;
use flexor_engine::controller::Phase;
use flexor_engine::nodes::{Cost, ExitKind};
use flexor_local::cluster::{ClusterEvent, Evaluations, JobKey, JobView, Learning, Records, Updates};
use flexor_model::UnixTime;
use serde::Serialize;

pub use self::servers::ServerAccount;
use super::history::Sample;

/// How a job went.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// Which.
    #[serde(flatten)]
    pub key: JobKey,
    /// Its dialect.
    pub dialect: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, where the controller says.
    pub cause: Option<Cause>,
    /// How long it took, from when it came.
    pub seconds: f64,
    /// What it did with that time.
    pub time: Time,
    /// How often pods of it were started again, also in places that are not there any more.
    pub relaunches: u32,
    /// Why pods of it were started again, the most frequent first.
    pub started_again: Vec<StartedAgain>,
    /// Of all datasets together, where there are any.
    pub records: Option<RecordCounts>,
    /// How fast it went through them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// How well its model does, where programs have said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
    /// Measurements of its model while it was trained, where there were some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluations: Option<Evaluations>,
    /// What came of its updates, where it has parameter servers and its workers have said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updates: Option<Updates>,
    /// Its parameter servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerAccount>,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// It has done its work.
    Succeeded,
    /// It cannot do it.
    Failed,
    /// It was ended before it was over.
    Interrupted,
}

/// Seconds by what a job did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Time {
    /// Its world stood.
    pub training: f64,
    /// It had not trained yet, or waited for room.
    pub waiting: f64,
    /// Something was put right.
    pub recovering: f64,
}

/// How fast a job went while it trained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// Records that were accounted for.
    pub records_per_second: f64,
    /// Steps, where they are counted.
    pub steps_per_second: Option<f64>,
}

/// Why pods were started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StartedAgain {
    /// The stable word.
    pub reason: &'static str,
    /// For people.
    #[serde(skip)]
    pub words: &'static str,
    /// How often.
    pub count: u32,
}

/// What became of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordCounts {
    /// All of all epochs, also of those that have not begun.
    pub expected: u64,
    /// Acknowledged.
    pub accounted: u64,
    /// Of those: damaged, or without meaning, and left out of their batches.
    pub left_out: u64,
    /// Gone through more than once, at most.
    pub recomputed: u64,
    /// Taken out, because the program fails of them.
    pub quarantined: u64,
    /// Neither of these, though the job has succeeded.
    pub lost: u64,
    /// Not gone through yet when the job ended without success.
    pub left: u64,
}

/// How a job went until now, given all that has happened.
pub fn of(job: &JobView, events: &[ClusterEvent], samples: &[Sample], now: UnixTime) -> Account {
    let outcome = match job.status.phase {
        Phase::Succeeded => Outcome::Succeeded,
        Phase::Failed => Outcome::Failed,
        Phase::Pending | Phase::Running | Phase::Suspended => Outcome::Interrupted,
    };
    let end = job.status.finished_at.unwrap_or(now);
    let split = job.timeline.split(end);
    let training = job.training.as_ref();
    let started_again = started_again(job, events);
    let records = training.and_then(|training| training.records);
    Account {
        key: job.key.clone(),
        dialect: job.dialect.clone(),
        outcome,
        cause: job.status.cause.clone().filter(|_| outcome != Outcome::Interrupted),
        seconds: end.saturating_sub(job.created_at).as_secs_f64(),
        time: Time {
            training: split.training.as_secs_f64(),
            waiting: split.waiting.as_secs_f64(),
            recovering: split.recovering.as_secs_f64(),
        },
        relaunches: started_again.iter().map(|again| again.count).sum(),
        started_again,
        records: records.map(|records| counts(records, outcome)),
        pace: pace::of(job, samples, end),
        learning: training.and_then(|training| training.learning),
        evaluations: training.and_then(|training| training.evaluations.clone()),
        updates: training.and_then(|training| training.servers.as_ref()?.updates),
        servers: training.map(|training| servers::of(training, samples)).unwrap_or_default(),
    }
}

/// Every end that is followed by another life is told as an event, with its reason.
fn started_again(job: &JobView, events: &[ClusterEvent]) -> Vec<StartedAgain> {
    // A job of the same name may have been here before.
    let ours = || events.iter().filter(|event| event.job == job.key && event.at >= job.created_at);
    let of_kind = |kind: &ExitKind| {
        let count = ours().filter(|event| event.cause.reason == kind.reason()).count();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        StartedAgain { reason: kind.reason().as_str(), words: words(*kind), count }
    };
    let losses =
        ExitKind::ALL.iter().filter(|kind| !matches!(kind.cost(), Cost::Nothing | Cost::FailNode | Cost::FailJob));
    let mut again: Vec<StartedAgain> = losses.map(of_kind).filter(|again| again.count > 0).collect();
    again.sort_by_key(|again| std::cmp::Reverse(again.count));
    again
}

fn words(kind: ExitKind) -> &'static str {
    match kind {
        ExitKind::Succeeded => "ended well",
        ExitKind::Removed => "taken away",
        ExitKind::Preempted => "made room",
        ExitKind::Evicted => "evicted",
        ExitKind::MachineLost => "lost",
        ExitKind::Rejected => "refused",
        ExitKind::Deleted => "deleted",
        ExitKind::Killed => "killed",
        ExitKind::OutOfMemory => "out of memory",
        ExitKind::Hardware => "hardware failed",
        ExitKind::DeadlineExceeded => "ran too long",
        ExitKind::ProgramError => "program failed",
        ExitKind::ProgramRefused => "program refused",
        ExitKind::CannotRun => "could not run",
    }
}

fn counts(records: Records, outcome: Outcome) -> RecordCounts {
    let Records { accounted, quarantined, repeated, rewound, left_out, total: expected, .. } = records;
    let open = expected.saturating_sub(accounted).saturating_sub(quarantined);
    let (lost, left) = if outcome == Outcome::Succeeded { (open, 0) } else { (0, open) };
    RecordCounts { expected, accounted, left_out, recomputed: repeated + rewound, quarantined, lost, left }
}

#[cfg(test)]
mod tests {
    use flexor_engine::controller::JobStatus;
    use flexor_local::cluster::{Activity, Span, Timeline, TrainingStatus};
    use flexor_model::Reason;
    use serde_json::Value;

    use std::time::Duration;

    use super::*;

    pub const BEGAN: UnixTime = UnixTime::from_secs(100);

    pub fn job(phase: Phase) -> JobView {
        let at = |seconds| BEGAN + Duration::from_secs(seconds);
        let span = |from, to: Option<u64>, activity| Span { from: at(from), to: to.map(at), activity, nodes: 2 };
        let mut timeline = Timeline::default();
        timeline.spans = vec![
            span(0, Some(1), Activity::Waiting),
            span(1, Some(4), Activity::Training),
            span(4, Some(6), Activity::Recovering),
            span(6, None, Activity::Training),
        ];
        let mut training = TrainingStatus::default();
        let counted = Records {
            expected: 1000,
            accounted: 900,
            quarantined: 60,
            repeated: 7,
            rewound: 5,
            left_out: 3,
            finished: false,
            total: 1000,
        };
        training.records = Some(counted);
        JobView {
            key: JobKey { namespace: "default".parse().unwrap(), name: "mnist".parse().unwrap() },
            dialect: "dlrover".to_owned(),
            manifest: Value::Null,
            created_at: BEGAN,
            deleting: false,
            status: JobStatus {
                phase,
                finished_at: phase.is_over().then(|| at(10)),
                cause: Some(Cause::new(Reason::JobRunning, "it runs")),
                ..JobStatus::default()
            },
            master: None,
            training: Some(training),
            timeline,
        }
    }

    fn lost(seconds: u64, reason: Reason) -> ClusterEvent {
        let job = job(Phase::Running).key;
        let pod = Some("mnist-worker-0".to_owned());
        ClusterEvent { number: seconds, at: UnixTime::from_secs(seconds), job, pod, cause: Cause::new(reason, "") }
    }

    #[test]
    fn time_ends_with_the_job_or_else_now() {
        let time = |phase| of(&job(phase), &[], &[], BEGAN + Duration::from_secs(60)).time;
        assert_eq!(time(Phase::Succeeded), Time { training: 7.0, waiting: 1.0, recovering: 2.0 });
        assert_eq!(time(Phase::Running), Time { training: 57.0, waiting: 1.0, recovering: 2.0 });
    }

    #[test]
    fn only_ends_that_another_life_follows_are_counted() {
        let events = [
            lost(50, Reason::ProgramKilled),
            lost(104, Reason::OutOfMemory),
            lost(105, Reason::PodReplaced),
            lost(106, Reason::ProgramKilled),
            lost(107, Reason::ProgramKilled),
            lost(108, Reason::ProgramSucceeded),
            lost(109, Reason::RetriesExhausted),
        ];
        let account = of(&job(Phase::Failed), &events, &[], BEGAN);
        let told: Vec<(&str, u32)> = account.started_again.iter().map(|again| (again.words, again.count)).collect();
        assert_eq!(told, [("killed", 2), ("out of memory", 1)], "the first was of a job before this one");
        assert_eq!(account.relaunches, 3, "as many in all, whether or not there are still places for them");
    }

    #[test]
    fn records_are_lost_only_where_the_job_says_that_it_is_done() {
        let counts = |phase| of(&job(phase), &[], &[], BEGAN).records.unwrap();
        let done = counts(Phase::Succeeded);
        assert_eq!((done.lost, done.left, done.recomputed, done.quarantined), (40, 0, 12, 60));
        assert_eq!((done.accounted, done.left_out), (900, 3), "what is left out is accounted for");
        for phase in [Phase::Failed, Phase::Running] {
            assert_eq!((counts(phase).lost, counts(phase).left), (0, 40), "{phase:?}");
        }
        assert_eq!(of(&job(Phase::Running), &[], &[], BEGAN).cause, None, "why it runs is not how it ended");
    }
}
