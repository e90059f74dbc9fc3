//! A plan, with its status.

use flexor_dialects::{PlanStatusInput, dlrover};
use serde_json::json;

use super::{Object, time};
use crate::cluster::{JobRecord, PlanRecord};

pub(super) fn objects(job: &JobRecord) -> impl Iterator<Item = Object> {
    job.plans.iter().map(|plan| object(job, plan))
}

fn object(job: &JobRecord, plan: &PlanRecord) -> Object {
    let mut json = plan.manifest.clone();
    json["metadata"]["namespace"] = json!(job.key.namespace);
    json["metadata"]["creationTimestamp"] = time(plan.created_at);
    // ScalePlan is the one kind of plan, whatever the dialect of the job.
    let generation = plan.manifest["metadata"]["generation"].as_i64();
    let input = PlanStatusInput { status: &plan.status, created_at: plan.created_at, generation };
    json["status"] = json!(dlrover::plan_status(input));
    Object { id: format!("{}/{}/{}", job.key, plan.plan.name, plan.created_at), json }
}
