//! A job: its manifest, with the status in the form that the users of its dialect know.
//!
//! Beside what its kind defines, a status says for every role how large it is to be and why (`targets`), and how its
//! places fared (`slots`).

use std::collections::BTreeMap;

use flexor_engine::controller::{JobStatus, Phase, PlanPhase, PodPhase, SetBy};
use flexor_model::{ReplicaRange, RoleName};
use serde_json::{Map, Value, json};

use super::{Object, time};
use crate::cluster::{Everything, JobRecord};

/// How many pods of a role are how far.
#[derive(Debug, Default)]
struct Counts {
    pending: u32,
    active: u32,
    succeeded: u32,
    failed: u32,
}

pub(super) fn object(job: &JobRecord, all: &Everything<'_>) -> Object {
    let mut json = job.manifest.clone();
    let metadata = &mut json["metadata"];
    metadata["namespace"] = json!(job.key.namespace);
    metadata["uid"] = json!(job.uid.to_string());
    metadata["generation"] = json!(job.generation);
    metadata["creationTimestamp"] = time(job.created_at);
    json["status"] = status(job, &counts(job, all));
    Object { id: job.uid.to_string(), json }
}

fn counts(job: &JobRecord, all: &Everything<'_>) -> BTreeMap<RoleName, Counts> {
    let mut counts: BTreeMap<RoleName, Counts> =
        job.job.roles.iter().map(|role| (role.name.clone(), Counts::default())).collect();
    for pod in all.pods.values().filter(|pod| pod.meta.job == job.key) {
        let of_role = counts.entry(pod.meta.desired.role.clone()).or_default();
        match pod.phase() {
            PodPhase::Pending => of_role.pending += 1,
            PodPhase::Running => of_role.active += 1,
            PodPhase::Succeeded => of_role.succeeded += 1,
            PodPhase::Failed => of_role.failed += 1,
        }
    }
    counts
}

fn status(job: &JobRecord, counts: &BTreeMap<RoleName, Counts>) -> Value {
    let status = &job.status;
    let replicas: Map<String, Value> = counts
        .iter()
        .map(|(role, counts)| {
            let Counts { pending, active, succeeded, failed } = counts;
            let value = json!({ "pending": pending, "active": active, "succeeded": succeeded, "failed": failed });
            (role.to_string(), value)
        })
        .collect();
    let common = json!({
        "conditions": conditions(status),
        "replicaStatuses": replicas,
        "startTime": status.started_at.map_or(Value::Null, time),
        "completionTime": status.finished_at.map_or(Value::Null, time),
    });
    let phase = format!("{:?}", status.phase);
    let mut shown = match job.job.dialect.as_str() {
        "dlrover" => {
            let open = job.plans.iter().find(|plan| plan.status.phase == PlanPhase::Scaling);
            json!({ "phase": phase, "scalePlan": open.map(|plan| &plan.plan.name), "status": common })
        }
        "edl" => {
            let phase = if status.phase == Phase::Pending { "creating".to_owned() } else { phase.to_lowercase() };
            let trainers = counts.iter().find(|(role, _)| role.lower() == "trainer").map(|(_, counts)| counts.active);
            json!({ "phase": phase, "trainers": trainers })
        }
        _ => {
            let mut shown = common;
            shown["phase"] = phase.into();
            shown
        }
    };
    shown["reason"] = json!(status.cause.as_ref().map(|cause| cause.reason));
    shown["message"] = json!(status.cause.as_ref().map(|cause| &cause.message));
    shown["targets"] = targets(job);
    shown["slots"] = slots(status);
    shown
}

/// What is so of the job now.
fn conditions(status: &JobStatus) -> Value {
    let Some(cause) = &status.cause else { return json!([]) };
    let since = status.finished_at.or(status.started_at).or(status.created_at).map_or(Value::Null, time);
    json!([{
        "type": format!("{:?}", status.phase),
        "status": "True",
        "reason": cause.reason,
        "message": cause.message,
        "lastUpdateTime": since,
        "lastTransitionTime": since,
    }])
}

fn targets(job: &JobRecord) -> Value {
    let target = |(role, target): (&RoleName, &flexor_engine::controller::Target)| {
        let set_by = match &target.set_by {
            SetBy::Spec => "spec".to_owned(),
            SetBy::Plan(plan) => format!("scaleplan/{plan}"),
        };
        let allowed = job.job.roles.iter().find(|known| known.name == *role).map(|known| known.size.allowed());
        let value = json!({
            "replicas": target.replicas,
            "minReplicas": allowed.map(ReplicaRange::min),
            "maxReplicas": allowed.and_then(ReplicaRange::max),
            "setBy": set_by,
            "generation": target.generation,
            "reason": target.cause.reason,
            "message": target.cause.message,
        });
        (role.to_string(), value)
    };
    Value::Object(job.status.targets.iter().map(target).collect())
}

fn slots(status: &JobStatus) -> Value {
    let roles = status.roles.iter().map(|(role, slots)| {
        let slots = slots.slots.iter().map(|(rank, slot)| {
            json!({
                "rank": rank.0,
                "number": slot.id.0,
                "relaunches": slot.relaunches,
                "notBefore": slot.not_before.map_or(Value::Null, time),
                "succeeded": slot.end.as_ref().map(|end| end.succeeded),
                "reason": slot.end.as_ref().map(|end| end.cause.reason),
                "message": slot.end.as_ref().map(|end| &end.cause.message),
            })
        });
        (role.to_string(), Value::Array(slots.collect()))
    });
    Value::Object(roles.collect())
}
