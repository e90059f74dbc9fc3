//! One job, from the caches to the API server: read, validate, decide and execute, write the status.

use std::collections::HashMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flexor_control::{Executor, JobDriver, Pacing};
use flexor_dialects::Finding;
use flexor_engine::Cause;
use flexor_engine::controller::{Event, ObservedPlan};
use flexor_model::{DnsLabel, JobUid, Reason, UnixTime};
use futures::FutureExt;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;

use crate::executor::{JobExecutor, Shared, now};
use crate::job_memory::JobMemory;
use crate::kinds::ServedKind;
use crate::plans;

/// Statuses that only inform, such as counts of pods, are written this often at most.
const INFORM_EVERY: Duration = Duration::from_secs(1);
/// A job at which the controller panicked is tried again after this, or when it changes.
const AFTER_PANIC: Duration = Duration::from_secs(60);
/// One less than a job may write, which leaves room for one that informs.
const PACING: Pacing = Pacing { status_writes_per_second: std::num::NonZero::new(4), ..Pacing::CLUSTER };

/// A kind of jobs, with what is known of its jobs.
pub(crate) struct JobKind {
    pub(crate) shared: Arc<Shared>,
    pub(crate) kind: ServedKind,
    /// The dialect's plans, if it has any.
    pub(crate) plans: Option<(ServedKind, Store<DynamicObject>)>,
    pub(crate) jobs: Jobs,
}

/// What is known of the jobs of a kind, by uid.
#[derive(Default, Clone)]
pub(crate) struct Jobs(Arc<Mutex<HashMap<String, Arc<KnownJob>>>>);

pub(crate) struct KnownJob {
    memory: Mutex<JobMemory>,
    driver: tokio::sync::Mutex<JobDriver>,
}

impl Jobs {
    fn get(&self, uid: &str) -> Arc<KnownJob> {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(jobs.entry(uid.to_owned()).or_insert_with(|| {
            let driver = tokio::sync::Mutex::new(JobDriver::new(PACING));
            Arc::new(KnownJob { memory: Mutex::default(), driver })
        }))
    }

    /// Forgets a job that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// A pod is gone, or all that are not listed may be: none of them is waited for.
    pub(crate) fn pods_gone(&self, gone: Option<(&str, &str)>) {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = |job: &Arc<KnownJob>| Arc::clone(job);
        match gone {
            Some((uid, pod)) => {
                let Some(job) = jobs.get(uid).map(memory) else { return };
                job.memory.lock().unwrap_or_else(PoisonError::into_inner).executor.outstanding.remove(pod);
            }
            None => {
                for job in jobs.values() {
                    job.memory.lock().unwrap_or_else(PoisonError::into_inner).executor.outstanding.clear();
                }
            }
        }
    }
}

/// Reconciles a job. A panic is reported on that job and harms no other.
pub(crate) async fn reconcile(object: Arc<DynamicObject>, kind: Arc<JobKind>) -> Result<Action, Infallible> {
    let caught = AssertUnwindSafe(reconcile_one(Arc::clone(&object), Arc::clone(&kind))).catch_unwind().await;
    Ok(caught.unwrap_or_else(|_| {
        let known = kind.jobs.get(&object.uid().unwrap_or_default());
        let complaint = "the controller fails at this job, which is a fault of Flexor; its log has the details";
        complain(&object, &kind, &known, complaint);
        Action::requeue(AFTER_PANIC)
    }))
}

/// Returns when to reconcile again if nothing changes before.
async fn reconcile_one(object: Arc<DynamicObject>, kind: Arc<JobKind>) -> Action {
    // The garbage collector removes what a deleted job owns.
    if object.metadata.deletion_timestamp.is_some() {
        return Action::await_change();
    }
    let (Some(uid), Some(namespace)) = (object.uid(), object.namespace()) else { return Action::await_change() };
    let Ok(namespace) = namespace.parse::<DnsLabel>() else { return Action::await_change() };
    kind.shared.metrics.reconciliations.inc();
    let known = kind.jobs.get(&uid);
    let mut driver = known.driver.lock().await;
    let executor = match validate(&object, &kind, &known, uid, namespace) {
        Ok(executor) => executor,
        Err(complaint) => {
            complain(&object, &kind, &known, &complaint);
            return Action::await_change();
        }
    };
    record_warnings(&executor);
    let requeue_at = driver.run(&executor, &(), &mut usize::MAX.clone()).await;
    let inform_at = inform(&executor).await;
    let next = requeue_at.into_iter().chain(inform_at).min();
    next.map_or_else(Action::await_change, |at| Action::requeue(at.saturating_sub(now())))
}

/// The job behind an object, with everything that is known of it; or why it cannot be served.
fn validate<'a>(
    object: &DynamicObject,
    kind: &'a JobKind,
    known: &'a KnownJob,
    uid: String,
    namespace: DnsLabel,
) -> Result<JobExecutor<'a>, String> {
    let mut memory = known.memory.lock().unwrap_or_else(PoisonError::into_inner);
    let job = memory.read_job(kind.kind.kind, object).map_err(|finding| describe(&finding))?;
    memory.read_status(kind.kind.dialect, object).map_err(|error| {
        format!("{error}; it is left alone: run the version of Flexor that wrote it, or delete the job")
    })?;
    drop(memory);
    Ok(JobExecutor {
        shared: &kind.shared,
        resource: &kind.kind.resource,
        dialect: kind.kind.dialect,
        plans: plans_of(kind, object),
        plan_resource: kind.plans.as_ref().map(|(plan, _)| &plan.resource),
        job,
        name: object.name_any(),
        namespace,
        uid: JobUid::from(uid.as_str()),
        generation: object
            .metadata
            .generation
            .and_then(|generation| u64::try_from(generation).ok())
            .unwrap_or_default(),
        memory: &known.memory,
    })
}

/// The plans for a job, each with its version.
fn plans_of(kind: &JobKind, object: &DynamicObject) -> Vec<(ObservedPlan, String)> {
    let Some((plan_kind, store)) = &kind.plans else { return Vec::new() };
    let of_job = |plan: &DynamicObject| {
        plan.metadata.namespace == object.metadata.namespace
            && plans::owner_job(plan) == object.metadata.name.as_deref()
            && plan.metadata.deletion_timestamp.is_none()
    };
    let found = store.state_filter(of_job);
    found
        .iter()
        .filter_map(|plan| {
            let observed = plans::observe(plan_kind, plan).ok()?;
            Some((observed, plan.resource_version().unwrap_or_default()))
        })
        .collect()
}

/// Writes the status again where it would say something else, at a slow pace. Returns when it may do so.
async fn inform(executor: &JobExecutor<'_>) -> Option<UnixTime> {
    let (status, shown, last_write) = {
        let memory = executor.memory();
        if memory.is_deleted || memory.status.created_at.is_none() {
            return None;
        }
        (memory.status.clone(), memory.shown.clone(), memory.last_write)
    };
    let (conditions, json) = executor.render_status(&status);
    if json == shown {
        return None;
    }
    if let Some(due) = last_write.map(|at| at + INFORM_EVERY).filter(|due| *due > now()) {
        return Some(due);
    }
    match executor.write_status(json).await {
        Ok(()) => {
            executor.memory().conditions = conditions;
            None
        }
        Err(error) => {
            tracing::debug!(job = executor.name, %error, "a status cannot be written");
            Some(now() + INFORM_EVERY)
        }
    }
}

/// Records what was noticed about the description, once for each generation.
fn record_warnings(executor: &JobExecutor<'_>) {
    let warnings = std::mem::take(&mut executor.memory().warnings);
    for warning in warnings {
        executor.record(&(), Event { pod: None, cause: Cause::new(warning.reason, describe(&warning)) });
    }
}

/// Says once why a job cannot be served.
fn complain(object: &DynamicObject, kind: &JobKind, known: &KnownJob, complaint: &str) {
    let mut memory = known.memory.lock().unwrap_or_else(PoisonError::into_inner);
    if memory.complaint.as_deref() == Some(complaint) {
        return;
    }
    memory.complaint = Some(complaint.to_owned());
    tracing::warn!(job = object.name_any(), namespace = object.namespace(), complaint, "a job cannot be served");
    let cause = Cause::new(Reason::InvalidValue, complaint);
    kind.shared.recorder.record(
        plans::subject(&kind.kind.resource, object),
        None,
        flexor_dialects::EventText::own(&cause, true),
    );
}

pub(crate) fn describe(finding: &Finding) -> String {
    let help = finding.help.as_deref().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{}: {}{help}", finding.field, finding.message)
}
