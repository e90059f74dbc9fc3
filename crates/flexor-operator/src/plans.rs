//! Plans as objects of the cluster: read for the job that they are for, and refused where there is none.
//!
//! What a plan does is decided with its job. Here a plan gets its job as owner, and one without a job, or one that
//! cannot be read, fails with a message.

use std::collections::HashMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flexor_dialects::manifest::Subject as Meaning;
use flexor_dialects::{Finding, PlanStatusInput};
use flexor_engine::Cause;
use flexor_engine::controller::{ObservedPlan, PlanPhase, PlanStatus};
use flexor_model::{Reason, UnixTime};
use futures::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::discovery::ApiResource;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use crate::executor::{REQUEST_TIMEOUT, Shared, now};
use crate::kinds::ServedKind;
use crate::reconcile::describe;
use crate::recorder::Subject;
use crate::status_patch;

/// A plan may be applied just before its job.
const JOB_APPEARS_WITHIN: Duration = Duration::from_secs(5);
const RETRY_AFTER: Duration = Duration::from_secs(1);
const AFTER_PANIC: Duration = Duration::from_secs(60);

/// A kind of plans, and the jobs that they are for.
pub(crate) struct PlanKind {
    pub(crate) shared: Arc<Shared>,
    pub(crate) kind: ServedKind,
    pub(crate) job_kind: ServedKind,
    pub(crate) jobs: Store<DynamicObject>,
    pub(crate) warned: WarnedEdits,
}

/// The edits of plans that are over and that were spoken of, by the plan's uid.
#[derive(Default, Clone)]
pub(crate) struct WarnedEdits(Arc<Mutex<HashMap<String, i64>>>);

impl WarnedEdits {
    /// Notes an edit. Returns whether it was not spoken of.
    fn is_new(&self, plan: String, generation: i64) -> bool {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        warned.insert(plan, generation) != Some(generation)
    }

    /// Forgets the plans that are not among these.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|plan, _| is_there(plan));
    }
}

/// The job that a plan says it is for.
pub(crate) fn owner_job(plan: &DynamicObject) -> Option<&str> {
    plan.data.pointer("/spec/ownerJob")?.as_str()
}

/// A plan, as the controller observes it, and what was noticed about it.
pub(crate) fn observe(kind: &ServedKind, object: &DynamicObject) -> Result<(ObservedPlan, Vec<Finding>), Finding> {
    let json = serde_json::to_value(object).unwrap_or_default();
    let reading = kind.kind.read(&json)?;
    let Meaning::Plan(plan) = reading.subject else { unreachable!("a kind of plans describes plans") };
    let status = kind.dialect.read_plan_status(&object.data["status"]);
    Ok((ObservedPlan { plan, created_at: created_at(object), status }, reading.findings))
}

fn created_at(object: &DynamicObject) -> UnixTime {
    let created = object.creation_timestamp();
    created.and_then(|at| UnixTime::try_from(at.0).ok()).unwrap_or_default()
}

/// Gives a plan its job as owner, or refuses it. A panic, or a request without an answer, harms no other plan.
pub(crate) async fn reconcile(object: Arc<DynamicObject>, kind: Arc<PlanKind>) -> Result<Action, Infallible> {
    let plan = object.name_any();
    let one = AssertUnwindSafe(timeout(REQUEST_TIMEOUT, reconcile_one(object, kind))).catch_unwind().await;
    Ok(match one {
        Ok(Ok(action)) => action,
        Ok(Err(_)) => Action::requeue(RETRY_AFTER),
        Err(_) => {
            tracing::error!(plan, "the controller fails at this plan, which is a fault of Flexor");
            Action::requeue(AFTER_PANIC)
        }
    })
}

async fn reconcile_one(object: Arc<DynamicObject>, kind: Arc<PlanKind>) -> Action {
    if object.metadata.deletion_timestamp.is_some() {
        return Action::await_change();
    }
    if kind.kind.dialect.read_plan_status(&object.data["status"]).phase.is_over() {
        warn_of_edit(&kind, &object);
        return Action::await_change();
    }
    let namespace = object.namespace().unwrap_or_default();
    let job = owner_job(&object).unwrap_or_default();
    let found = kind.jobs.get(&ObjectRef::new_with(job, kind.job_kind.resource.clone()).within(&namespace));
    let done = match (observe(&kind.kind, &object), found) {
        (Err(finding), _) => refuse(&kind, &object, describe(&finding)).await,
        (Ok((_, warnings)), Some(job)) => own(&kind, &object, &job, &warnings).await,
        (Ok((plan, _)), None) => {
            let due = plan.created_at + JOB_APPEARS_WITHIN;
            if now() < due {
                return Action::requeue(due.saturating_sub(now()));
            }
            let message = format!("there is no {} {job} in {namespace}", kind.job_kind.resource.kind);
            refuse(&kind, &object, format!("{message}; apply the job, then the plan again under another name")).await
        }
    };
    match done {
        Ok(()) => Action::await_change(),
        Err(error) => {
            tracing::warn!(plan = object.name_any(), namespace, %error, "a plan cannot be updated; it is tried again");
            Action::requeue(RETRY_AFTER)
        }
    }
}

/// Says that a plan that is over was edited in vain, once for each edit.
fn warn_of_edit(kind: &PlanKind, plan: &DynamicObject) {
    let executed = plan.data.pointer("/status/observedGeneration").and_then(serde_json::Value::as_i64);
    let (Some(executed), Some(generation), Some(uid)) = (executed, plan.metadata.generation, plan.uid()) else {
        return;
    };
    if generation <= executed || !kind.warned.is_new(uid, generation) {
        return;
    }
    let message = "the plan is over and is not carried out again; apply a plan of another name";
    let cause = Cause::new(Reason::PlanRefused, message);
    tracing::info!(plan = plan.name_any(), namespace = plan.namespace(), reason = %cause.reason, message, "event");
    let text = flexor_dialects::EventText::own(&cause, true);
    kind.shared.recorder.record(subject(&kind.kind.resource, plan), None, text);
}

/// Makes the job the plan's owner. What was noticed about the plan is recorded then, so once.
async fn own(
    kind: &PlanKind,
    plan: &DynamicObject,
    job: &DynamicObject,
    warnings: &[Finding],
) -> Result<(), kube::Error> {
    let uid = job.uid().unwrap_or_default();
    if plan.owner_references().iter().any(|owner| owner.uid == uid) {
        return Ok(());
    }
    let resource = &kind.job_kind.resource;
    // An object has one controller at most.
    let has_controller = plan.owner_references().iter().any(|owner| owner.controller == Some(true));
    let owner = OwnerReference {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        name: job.name_any(),
        uid,
        controller: (!has_controller).then_some(true),
        block_owner_deletion: None,
    };
    let owners: Vec<&OwnerReference> = plan.owner_references().iter().chain([&owner]).collect();
    let metadata = json!({ "resourceVersion": plan.resource_version(), "ownerReferences": owners });
    let patch = json!({ "metadata": metadata });
    api(kind, plan).patch(&plan.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    for warning in warnings {
        let text = flexor_dialects::EventText::own(&Cause::new(warning.reason, describe(warning)), true);
        kind.shared.recorder.record(subject(&kind.kind.resource, plan), None, text);
    }
    Ok(())
}

async fn refuse(kind: &PlanKind, plan: &DynamicObject, message: String) -> Result<(), kube::Error> {
    let cause = Cause::new(Reason::PlanRefused, message);
    tracing::info!(plan = plan.name_any(), namespace = plan.namespace(), reason = %cause.reason, message = cause.message, "refuse plan");
    let text = flexor_dialects::EventText::own(&cause, true);
    let status = PlanStatus { phase: PlanPhase::Failed, cause: Some(cause), finished_at: Some(now()) };
    let input = PlanStatusInput { status: &status, created_at: created_at(plan), generation: plan.metadata.generation };
    let Some(json) = kind.kind.dialect.plan_status(input) else { return Ok(()) };
    let version = plan.resource_version().unwrap_or_default();
    status_patch::write(&api(kind, plan), &plan.name_any(), &version, &json).await?;
    kind.shared.recorder.record(subject(&kind.kind.resource, plan), None, text);
    Ok(())
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
