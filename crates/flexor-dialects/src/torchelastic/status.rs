//! The status of an `ElasticJob` and its events, in the words of TorchElastic's controller.

use flexor_model::{Reason, Severity};

use super::{ElasticJobStatus, ReplicaStatus};
use crate::{
    conditions::{self, JobCondition},
    events::{self, EventInput, EventText},
    job_status::{StatusInput, int, time},
};

/// The component that TorchElastic's events come from.
const REPORTER: &str = "elastic-job-controller";

/// The status of a job.
pub fn status(input: &StatusInput<'_>) -> ElasticJobStatus {
    let replica_statuses = input.counts().map(|(role, counts)| {
        let status =
            ReplicaStatus { active: int(counts.active), succeeded: int(counts.succeeded), failed: int(counts.failed) };
        (role.to_string(), status)
    });
    ElasticJobStatus {
        phase: Some(conditions::type_of(input.status.phase, input.is_scaling()).to_owned()),
        observed_generation: input.observed_generation(),
        reason: input.reason(),
        message: input.message(),
        targets: Some(input.targets()),
        flexor: input.stored(),
        conditions: Some(conditions(input)),
        replica_statuses: Some(replica_statuses.collect()),
        label_selector: Some(format!("group-name=elastic.pytorch.org,job-name={},replica-type=worker", input.job.name)),
        start_time: time(input.status.started_at),
        completion_time: time(input.status.finished_at),
        last_reconcile_time: None,
    }
}

/// The conditions of a job. TorchElastic's controller never sets Created.
pub fn conditions(input: &StatusInput<'_>) -> Vec<JobCondition> {
    input.phase_conditions(false, "ElasticJob", "ElasticJob")
}

/// What an event says.
pub fn event(input: &EventInput<'_>) -> EventText {
    let name = &input.job.name;
    let (reason, message) = match (input.pod, input.cause.reason) {
        (Some(pod), Reason::PodWanted) => ("SuccessfulCreatePod", format!("Created pod: {pod}")),
        (
            Some(pod),
            Reason::NodeRemoved | Reason::PodReplaced | Reason::JobOver | Reason::JobSuspended | Reason::JobDeleted,
        ) => ("SuccessfulDeletePod", format!("Deleted pod: {pod}: {}", input.cause.message)),
        (None, Reason::JobSucceeded) => {
            ("ElasticJobSucceeded", format!("ElasticJob {name} successfully completed: {}", input.cause.message))
        }
        (None, reason) if reason.severity() == Severity::Error && reason != Reason::PlanRefused => {
            ("ElasticJobFailed", format!("ElasticJob {name} has failed: {}", input.cause))
        }
        (_, _) => return EventText { reporter: REPORTER, ..events::in_own_words(input) },
    };
    let own = events::in_own_words(input);
    EventText { reason: reason.to_owned(), message, reporter: REPORTER, is_about_job: true, ..own }
}
