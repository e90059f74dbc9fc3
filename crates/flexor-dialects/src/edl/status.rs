//! The status of a `TrainingJob`, in the words of PaddlePaddle EDL's controllers of 2018.

use std::collections::BTreeMap;

use flexor_engine::controller::{Phase, SizeChange};
use flexor_model::RoleKind;

use super::{ReplicaStatus, ScaleRecord, TrainingJobStatus};
use crate::{
    conditions::JobCondition,
    job_status::{PodCounts, StatusInput, int, time},
};

/// The status of a job.
pub fn status(input: &StatusInput<'_>) -> TrainingJobStatus {
    let phase = match input.status.phase {
        Phase::Pending => "creating",
        Phase::Running if input.is_scaling() => "scaling",
        Phase::Running => "running",
        Phase::Suspended => "suspended",
        Phase::Succeeded => "succeeded",
        Phase::Failed => "failed",
    };
    let trainers = input.job.role(RoleKind::Worker).and_then(|role| input.pods.get(&role.name));
    TrainingJobStatus {
        state: None,
        message: input.message(),
        phase: Some(phase.to_owned()),
        reason: input.reason(),
        scale_status: None,
        trainers: int(trainers.map_or(0, |counts| counts.active)),
        replica_statuses: Some(input.counts().map(|(role, counts)| replica(role.as_str(), counts)).collect()),
        scale_records: Some(records(input)).filter(|records| !records.is_empty()),
        observed_generation: input.observed_generation(),
        conditions: Some(conditions(input)),
        targets: Some(input.targets()),
        flexor: input.stored(),
    }
}

/// The conditions of a job: Created, then one for each phase that it was in.
pub fn conditions(input: &StatusInput<'_>) -> Vec<JobCondition> {
    input.phase_conditions(true, "TrainingJob", "TrainingJob")
}

/// The last changes of the number of trainers.
fn records(input: &StatusInput<'_>) -> Vec<ScaleRecord> {
    input.status.size_changes.iter().filter_map(|change| record(input, change)).collect()
}

fn record(input: &StatusInput<'_>, change: &SizeChange) -> Option<ScaleRecord> {
    input.job.role(RoleKind::Worker).filter(|role| role.name == change.role)?;
    let additional = i64::from(change.to) - i64::from(change.from);
    Some(ScaleRecord {
        scale_timestamp: time(Some(change.at)),
        additional: i32::try_from(additional).unwrap_or_default(),
        status: Some("True".to_owned()),
        reason: Some(change.message.clone()),
    })
}

fn replica(role: &str, counts: PodCounts) -> ReplicaStatus {
    let PodCounts { pending, active, succeeded, failed } = counts;
    let states = [("starting", pending), ("running", active), ("failed", failed), ("succeeded", succeeded)];
    let present: BTreeMap<String, i32> = states
        .iter()
        .filter_map(|(state, count)| Some(((*state).to_owned(), int(*count).filter(|n| *n > 0)?)))
        .collect();
    let state = states.iter().find(|(_, count)| *count > 0).map(|(state, _)| (*state).to_owned());
    ReplicaStatus { training_resource_type: role.to_owned(), state, resource_states: Some(present) }
}
