//! The figures of a job after a run, for the summary and the report. Pure: computed from the job, events and samples.

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

/// The figures of one job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobAccount {
    #[serde(flatten)]
    pub key: JobKey,
    pub dialect: String,
    pub outcome: JobOutcome,
    /// The controller's cause of the outcome.
    pub cause: Option<Cause>,
    /// Duration since the job was created.
    pub seconds: f64,
    /// The same duration by activity.
    pub time: TimeByActivity,
    /// Number of replaced pods, also in slots that no longer exist.
    pub relaunches: u32,
    /// Causes of the replacements, the most frequent first.
    pub started_again: Vec<RelaunchCount>,
    /// Sums over all datasets of the job.
    pub records: Option<RecordCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// The last scores that programs reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
    /// Evaluations of the model during training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluations: Option<Evaluations>,
    /// Outcomes of pushes to parameter servers, as reported by workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updates: Option<Updates>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerAccount>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum JobOutcome {
    Succeeded,
    Failed,
    /// The run ended before the job did.
    Interrupted,
}

/// Seconds by activity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TimeByActivity {
    pub training: f64,
    /// Time before the first training, and time without enough scheduled pods.
    pub waiting: f64,
    /// Time between a loss and the next training.
    pub recovering: f64,
}

/// Rates while the job trained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// Rate of records that were accounted for.
    pub records_per_second: f64,
    pub steps_per_second: Option<f64>,
}

/// Number of pods that were replaced for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RelaunchCount {
    /// The stable name of the reason.
    pub reason: &'static str,
    /// The reason in words for people.
    #[serde(skip)]
    pub words: &'static str,
    pub count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordCounts {
    /// Records of all epochs, also of those that have not started.
    pub expected: u64,
    /// Acknowledged records.
    pub accounted: u64,
    /// Acknowledged records that workers skipped, because they are damaged or do not fit the schema.
    pub skipped: u64,
    /// Upper bound of records that were computed more than once.
    pub recomputed: u64,
    /// The most that damage of the journal opened again; part of `recomputed`.
    pub reopened: u64,
    /// Records that were excluded because the program fails on them.
    pub quarantined: u64,
    /// Neither acknowledged nor quarantined, although the job succeeded.
    pub lost: u64,
    /// Neither acknowledged nor quarantined when the job ended without success.
    pub left: u64,
}

/// Computes the figures of a job until now.
pub fn of(job: &JobView, events: &[ClusterEvent], samples: &[Sample], now: UnixTime) -> JobAccount {
    let outcome = match job.status.phase {
        Phase::Succeeded => JobOutcome::Succeeded,
        Phase::Failed => JobOutcome::Failed,
        Phase::Pending | Phase::Running | Phase::Suspended => JobOutcome::Interrupted,
    };
    let end = job.status.finished_at.unwrap_or(now);
    let split = job.timeline.split(end);
    let training = job.training.as_ref();
    let started_again = count_relaunches(job, events);
    let records = training.and_then(|training| training.records);
    JobAccount {
        key: job.key.clone(),
        dialect: job.dialect.clone(),
        outcome,
        cause: job.status.cause.clone().filter(|_| outcome != JobOutcome::Interrupted),
        seconds: end.saturating_sub(job.created_at).as_secs_f64(),
        time: TimeByActivity {
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

/// Counts the events of pods that were replaced: each such end has an event with its reason.
fn count_relaunches(job: &JobView, events: &[ClusterEvent]) -> Vec<RelaunchCount> {
    // Earlier events may belong to a deleted job of the same name.
    let ours = || events.iter().filter(|event| event.job == job.key && event.at >= job.created_at);
    let of_kind = |kind: &ExitKind| {
        let count = ours().filter(|event| event.cause.reason == kind.reason()).count();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        RelaunchCount { reason: kind.reason().as_str(), words: words(*kind), count }
    };
    let losses =
        ExitKind::ALL.iter().filter(|kind| !matches!(kind.cost(), Cost::Nothing | Cost::FailNode | Cost::FailJob));
    let mut again: Vec<RelaunchCount> = losses.map(of_kind).filter(|again| again.count > 0).collect();
    again.sort_by_key(|again| std::cmp::Reverse(again.count));
    again
}

fn words(kind: ExitKind) -> &'static str {
    match kind {
        ExitKind::Succeeded => "succeeded",
        ExitKind::Removed => "removed",
        ExitKind::Preempted => "preempted",
        ExitKind::Evicted => "evicted",
        ExitKind::MachineLost => "machine lost",
        ExitKind::Rejected => "rejected",
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

fn counts(records: Records, outcome: JobOutcome) -> RecordCounts {
    let Records { accounted, quarantined, repeated, rewound, reopened, left_out: skipped, total: expected, .. } =
        records;
    let open = expected.saturating_sub(accounted).saturating_sub(quarantined);
    let (lost, left) = if outcome == JobOutcome::Succeeded { (open, 0) } else { (0, open) };
    RecordCounts { expected, accounted, skipped, recomputed: repeated + rewound, reopened, quarantined, lost, left }
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
            reopened: 0,
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
        assert_eq!(time(Phase::Succeeded), TimeByActivity { training: 7.0, waiting: 1.0, recovering: 2.0 });
        assert_eq!(time(Phase::Running), TimeByActivity { training: 57.0, waiting: 1.0, recovering: 2.0 });
    }

    #[test]
    fn only_pods_that_were_replaced_are_counted() {
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
        let counts: Vec<(&str, u32)> = account.started_again.iter().map(|again| (again.words, again.count)).collect();
        assert_eq!(counts, [("killed", 2), ("out of memory", 1)], "the first event is of an earlier job");
        assert_eq!(account.relaunches, 3, "slots that no longer exist count too");
    }

    #[test]
    fn records_are_lost_only_if_the_job_succeeded() {
        let counts = |phase| of(&job(phase), &[], &[], BEGAN).records.unwrap();
        let done = counts(Phase::Succeeded);
        assert_eq!((done.lost, done.left, done.recomputed, done.quarantined), (40, 0, 12, 60));
        assert_eq!((done.accounted, done.skipped), (900, 3), "skipped records are accounted for");
        for phase in [Phase::Failed, Phase::Running] {
            assert_eq!((counts(phase).lost, counts(phase).left), (0, 40), "{phase:?}");
        }
        assert_eq!(of(&job(Phase::Running), &[], &[], BEGAN).cause, None, "the cause of a running job is no outcome");
    }
}
