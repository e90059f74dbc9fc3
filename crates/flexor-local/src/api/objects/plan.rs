//! A plan, with how far it is.

use serde_json::{Value, json};

use super::{Object, time};
use crate::cluster::{JobRecord, PlanRecord};

pub(super) fn objects(job: &JobRecord) -> impl Iterator<Item = Object> {
    job.plans.iter().map(|plan| object(job, plan))
}

fn object(job: &JobRecord, plan: &PlanRecord) -> Object {
    let mut json = plan.manifest.clone();
    json["metadata"]["namespace"] = json!(job.key.namespace);
    json["metadata"]["creationTimestamp"] = time(plan.created_at);
    let cause = plan.status.cause.as_ref();
    json["status"] = json!({
        "phase": format!("{:?}", plan.status.phase),
        "reason": cause.map(|cause| cause.reason),
        "message": cause.map(|cause| &cause.message),
        "finishTime": plan.status.finished_at.map_or(Value::Null, time),
    });
    Object { id: format!("{}/{}/{:?}", job.key, plan.plan.name, plan.created_at), json }
}
