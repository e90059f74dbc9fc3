//! Plans as objects of the cluster: read for the job that they are for, and refused where there is none.
//!
//! What a plan does is decided with its job. Here a plan gets its job as owner, and one without a job, or one that
//! cannot be read, fails with a message.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flexor_dialects::Finding;
use flexor_dialects::manifest::Subject as Meaning;
use flexor_engine::Cause;
use flexor_engine::controller::{ObservedPlan, PlanPhase, PlanStatus};
use flexor_model::{Reason, UnixTime};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::discovery::ApiResource;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::executor::{Shared, now};
use crate::kinds::ServedKind;
use crate::reconcile::describe;
use crate::recorder::Subject;
use crate::status_patch;

/// A plan may be applied just before its job.
const JOB_APPEARS_WITHIN: Duration = Duration::from_secs(5);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A kind of plans, and the jobs that they are for.
pub(crate) struct PlanKind {
    pub(crate) shared: Arc<Shared>,
    pub(crate) kind: ServedKind,
    pub(crate) job_kind: ServedKind,
    pub(crate) jobs: Store<DynamicObject>,
}

/// The job that a plan says it is for.
pub(crate) fn owner_job(plan: &DynamicObject) -> Option<&str> {
    plan.data.pointer("/spec/ownerJob")?.as_str()
}

/// A plan, as the controller observes it.
pub(crate) fn observe(kind: &ServedKind, object: &DynamicObject) -> Result<ObservedPlan, Finding> {
    let json = serde_json::to_value(object).unwrap_or_default();
    let Meaning::Plan(plan) = kind.kind.read(&json)?.subject else { unreachable!("a kind of plans describes plans") };
    Ok(ObservedPlan {
        plan,
        created_at: created_at(object),
        status: kind.dialect.read_plan_status(&object.data["status"]),
    })
}

fn created_at(object: &DynamicObject) -> UnixTime {
    let created = object.creation_timestamp();
    created.and_then(|at| UnixTime::try_from(at.0).ok()).unwrap_or_default()
}

/// Gives a plan its job as owner, or refuses it.
pub(crate) async fn reconcile(object: Arc<DynamicObject>, kind: Arc<PlanKind>) -> Result<Action, Infallible> {
    let is_over = kind.kind.dialect.read_plan_status(&object.data["status"]).phase.is_over();
    if is_over || object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let namespace = object.namespace().unwrap_or_default();
    let job = owner_job(&object).unwrap_or_default();
    let found = kind.jobs.get(&ObjectRef::new_with(job, kind.job_kind.resource.clone()).within(&namespace));
    let done = match (observe(&kind.kind, &object), found) {
        (Err(finding), _) => refuse(&kind, &object, describe(&finding)).await,
        (Ok(_), Some(job)) => own(&kind, &object, &job).await,
        (Ok(plan), None) => {
            let due = plan.created_at + JOB_APPEARS_WITHIN;
            if now() < due {
                return Ok(Action::requeue(due.saturating_sub(now())));
            }
            let message = format!("there is no {} {job} in {namespace}", kind.job_kind.resource.kind);
            refuse(&kind, &object, format!("{message}; apply the job, then the plan again under another name")).await
        }
    };
    Ok(match done {
        Ok(()) => Action::await_change(),
        Err(error) => {
            tracing::warn!(plan = object.name_any(), namespace, %error, "a plan cannot be updated; it is tried again");
            Action::requeue(RETRY_AFTER)
        }
    })
}

async fn own(kind: &PlanKind, plan: &DynamicObject, job: &DynamicObject) -> Result<(), kube::Error> {
    let uid = job.uid().unwrap_or_default();
    if plan.owner_references().iter().any(|owner| owner.uid == uid) {
        return Ok(());
    }
    let resource = &kind.job_kind.resource;
    let owner = json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "name": job.name_any(), "uid": uid, "controller": true,
    });
    let metadata = json!({ "resourceVersion": plan.resource_version(), "ownerReferences": [owner] });
    let patch = json!({ "metadata": metadata });
    api(kind, plan).patch(&plan.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

async fn refuse(kind: &PlanKind, plan: &DynamicObject, message: String) -> Result<(), kube::Error> {
    let cause = Cause::new(Reason::PlanRefused, message);
    tracing::info!(plan = plan.name_any(), namespace = plan.namespace(), reason = %cause.reason, message = cause.message, "refuse plan");
    let text = flexor_dialects::EventText::own(&cause, true);
    kind.shared.recorder.record(subject(&kind.kind.resource, plan), None, text);
    let status = PlanStatus { phase: PlanPhase::Failed, cause: Some(cause), finished_at: Some(now()) };
    let Some(json) = kind.kind.dialect.plan_status(&status, created_at(plan)) else { return Ok(()) };
    let version = plan.resource_version().unwrap_or_default();
    status_patch::write(&api(kind, plan), &plan.name_any(), &version, &json).await.map(drop)
}

fn api(kind: &PlanKind, plan: &DynamicObject) -> Api<DynamicObject> {
    let namespace = plan.namespace().unwrap_or_default();
    Api::namespaced_with(kind.shared.client.clone(), &namespace, &kind.kind.resource)
}

/// The subject of an event about an object.
pub(crate) fn subject(resource: &ApiResource, object: &DynamicObject) -> Subject {
    Subject {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        uid: object.uid(),
    }
}
