//! The status of an `ElasticJob` and of a `ScalePlan`, in the words that DLRover's users know.
//!
//! DLRover's operator reports no events about running jobs, so Flexor's own words stand there.

use std::collections::BTreeMap;

use flexor_engine::Cause;
use flexor_engine::controller::{PlanPhase, PlanStatus};
use flexor_model::{RoleKind, RoleName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::Value;

use super::{ElasticJobStatus, JobStatus, ReplicaStatus, ScalePlanStatus};
use crate::{
    conditions::{self, JobCondition},
    dialect::PlanStatusInput,
    job_status::{StatusInput, int, time},
};

/// The status of a job.
pub fn status(input: &StatusInput<'_>) -> ElasticJobStatus {
    let replica_statuses: BTreeMap<String, ReplicaStatus> = input
        .job
        .roles
        .iter()
        .zip(input.counts())
        .map(|(role, (name, counts))| {
            let status = ReplicaStatus {
                initial: int(role.size.initial()),
                pending: int(counts.pending),
                active: int(counts.active),
                succeeded: int(counts.succeeded),
                failed: int(counts.failed),
                label_selector: Some(format!("elasticjob-name={},replica-type={name}", input.job.name)),
            };
            (name.to_string(), status)
        })
        .collect();
    ElasticJobStatus {
        phase: Some(conditions::type_of(input.status.phase, input.is_scaling()).to_owned()),
        scale_plan: input.plan.map(str::to_owned),
        observed_generation: input.observed_generation(),
        reason: input.reason(),
        message: input.message(),
        targets: Some(input.targets()),
        flexor: input.stored(),
        replicas: worker_pods(input),
        label_selector: Some(worker_selector(input)),
        status: Some(JobStatus {
            conditions: conditions(input),
            replica_statuses,
            start_time: time(input.status.started_at),
            completion_time: time(input.status.finished_at),
            last_reconcile_time: None,
        }),
    }
}

/// The roles that `worker.replicas` of a manifest counts: one worker of a parameter-server job is its chief.
fn worker_roles<'a>(input: &'a StatusInput<'_>) -> impl Iterator<Item = &'a RoleName> {
    let trains = |kind| matches!(kind, RoleKind::Chief | RoleKind::Worker);
    input.job.roles.iter().filter(move |role| trains(role.kind)).map(|role| &role.name)
}

fn worker_pods(input: &StatusInput<'_>) -> Option<i32> {
    let counts = worker_roles(input).filter_map(|role| input.pods.get(role));
    int(counts.fold(0, |sum: u32, counts| sum.saturating_add(counts.pending).saturating_add(counts.active)))
}

fn worker_selector(input: &StatusInput<'_>) -> String {
    let roles: Vec<String> = worker_roles(input).map(RoleName::lower).collect();
    let of_job = format!("elasticjob-name={}", input.job.name);
    match &roles[..] {
        [role] => format!("{of_job},replica-type={role}"),
        _ => format!("{of_job},replica-type in ({})", roles.join(",")),
    }
}

/// The conditions of a job: Created, then one for each phase that it was in.
pub fn conditions(input: &StatusInput<'_>) -> Vec<JobCondition> {
    input.phase_conditions(true, "Job", "ElasticJob")
}

/// The status of a plan.
pub fn plan_status(input: PlanStatusInput<'_>) -> ScalePlanStatus {
    let PlanStatusInput { status, created_at, generation } = input;
    let cause = status.cause.as_ref();
    ScalePlanStatus {
        create_time: time(Some(created_at)),
        finish_time: time(status.finished_at),
        observed_generation: generation,
        phase: Some(format!("{:?}", status.phase)),
        reason: cause.map(|cause| cause.reason.to_string()),
        message: cause.map(|cause| cause.message.clone()),
    }
}

/// Reads back what [`plan_status`] wrote.
pub(super) fn read_plan_status(status: &Value) -> PlanStatus {
    let written = ScalePlanStatus::deserialize(status).unwrap_or_default();
    let phase = match written.phase.as_deref() {
        Some("Scaling") => PlanPhase::Scaling,
        Some("Succeeded") => PlanPhase::Succeeded,
        Some("Failed") => PlanPhase::Failed,
        Some(_) | None => PlanPhase::Pending,
    };
    let reason = written.reason.and_then(|reason| reason.parse().ok());
    PlanStatus {
        phase,
        cause: reason.map(|reason| Cause::new(reason, written.message.unwrap_or_default())),
        finished_at: written.finish_time.and_then(|Time(at)| at.try_into().ok()),
    }
}
