//! One job, from the caches to the API server: read, validate, decide and execute, write the status.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flexor_control::{Executor, JobDriver, Pacing};
use flexor_dialects::Finding;
use flexor_engine::Cause;
use flexor_engine::controller::{Event, ObservedPlan};
use flexor_model::{DnsLabel, JobUid, Reason, UnixTime};
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;
use tokio::task::JoinSet;

use crate::executor::{ExecuteError, JobExecutor, REQUEST_TIMEOUT, Shared, now};
use crate::job_events::JobEvents;
use crate::job_memory::{JobMemory, ServiceChange};
use crate::kinds::ServedKind;
use crate::master_link::{LinkedJob, MasterLink, SharedReports};
use crate::watches::Queues;
use crate::{automatic_plans, claim, master_link, plans};

/// Statuses that only inform, such as counts of pods, are written this often at most.
const INFORM_EVERY: Duration = Duration::from_secs(1);
/// A job at which the controller panicked is tried again after this, or when it changes.
const AFTER_PANIC: Duration = Duration::from_secs(60);
/// A plan that the master wants and that could not be created is tried again after this.
const RETRY_PLANS_AFTER: Duration = Duration::from_secs(1);
/// One less than a job may write, which leaves room for one that informs.
const PACING: Pacing = Pacing { status_writes_per_second: std::num::NonZero::new(4), ..Pacing::CLUSTER };

/// A kind of jobs, with what is known of its jobs.
pub(crate) struct JobKind {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queues: Queues,
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
    reports: SharedReports,
    driver: tokio::sync::Mutex<(JobDriver, MasterLink)>,
}

impl Jobs {
    fn get(&self, uid: &str) -> Arc<KnownJob> {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(jobs.entry(uid.to_owned()).or_insert_with(|| {
            let driver = tokio::sync::Mutex::new((JobDriver::new(PACING), MasterLink::default()));
            Arc::new(KnownJob { memory: Mutex::default(), reports: SharedReports::default(), driver })
        }))
    }

    /// Whether this is what is known of the job: it was not forgotten meanwhile.
    fn knows(&self, uid: &str, known: &Arc<KnownJob>) -> bool {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.get(uid).is_some_and(|here| Arc::ptr_eq(here, known))
    }

    /// Forgets a job that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Forgets the jobs that are not among these: they went while the watch was broken.
    pub(crate) fn retain(&self, uids: &HashSet<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| uids.contains(uid));
    }

    /// A service is gone, or all that are not listed may be: none of them is taken for there.
    pub(crate) fn services_gone(&self, gone: Option<(&str, &str)>) {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let forget = |job: &KnownJob, is_gone: &dyn Fn(&str) -> bool| {
            let mut memory = job.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.services.retain(|name, change| *change == ServiceChange::Deleted || !is_gone(name));
        };
        match gone {
            Some((uid, service)) => jobs.get(uid).iter().for_each(|job| forget(job, &|name| name == service)),
            None => jobs.values().for_each(|job| forget(job, &|_| true)),
        }
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

/// Reconciles a job, in a task of its own, so that a large one delays no other. A panic is reported on that job and harms
/// no other.
pub(crate) async fn reconcile(object: Arc<DynamicObject>, kind: Arc<JobKind>) -> Result<Action, Infallible> {
    // The set ends its task when this future is dropped.
    let mut task = JoinSet::new();
    task.spawn(reconcile_one(Arc::clone(&object), Arc::clone(&kind)));
    let reconciled = task.join_next().await.and_then(Result::ok);
    kind.shared.planning.see(&object.uid().unwrap_or_default());
    Ok(reconciled.unwrap_or_else(|| {
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
        kind.shared.planning.remove(&object.uid().unwrap_or_default());
        return Action::await_change();
    }
    let (Some(uid), Some(namespace)) = (object.uid(), object.namespace()) else { return Action::await_change() };
    let Ok(namespace) = namespace.parse::<DnsLabel>() else { return Action::await_change() };
    kind.shared.metrics.reconciliations.inc();
    let known = kind.jobs.get(&uid);
    let mut locked = known.driver.lock().await;
    let (driver, link) = &mut *locked;
    let executor = match validate(&object, &kind, &known, uid, namespace) {
        Ok((executor, None)) => {
            executor.memory().complaint = None;
            executor
        }
        Ok((executor, Some(complaint))) => {
            complain(&object, &kind, &known, &complaint);
            executor
        }
        Err(complaint) => {
            complain(&object, &kind, &known, &complaint);
            return Action::await_change();
        }
    };
    record_warnings(&executor);
    let requeue_at = driver.run(&executor, &(), &mut usize::MAX.clone()).await;
    let created_at = object.metadata.creation_timestamp.as_ref().and_then(|at| UnixTime::try_from(at.0).ok());
    executor.register(created_at.unwrap_or_default(), || kind.jobs.knows(&object.uid().unwrap_or_default(), &known));
    if kind.shared.feeds_masters {
        let plans: Vec<ObservedPlan> = executor.plans.iter().map(|(plan, _, _)| plan.clone()).collect();
        link.update(&linked(&executor, &kind, &known), &executor.status(), &executor.observed_pods(), &plans);
    }
    let master_plans = master_link::lock(&known.reports).plans.clone();
    let carried_out = automatic_plans::carry_out(&executor, master_plans).await;
    if let Err(error) = &carried_out {
        tracing::info!(job = executor.name, namespace = %executor.namespace, %error, "a plan of the master waits");
    }
    let retry_at = carried_out.is_err().then(|| now() + RETRY_PLANS_AFTER);
    let inform_at = inform(&executor).await;
    let next = [requeue_at, retry_at, inform_at, executor.next_overdue_at()].into_iter().flatten().min();
    next.map_or_else(Action::await_change, |at| Action::requeue(at.saturating_sub(now())))
}

/// The job behind an object, with everything that is known of it; or why it cannot be served. A job whose last edit is
/// invalid is served as it was before, with a complaint.
fn validate<'a>(
    object: &DynamicObject,
    kind: &'a JobKind,
    known: &'a KnownJob,
    uid: String,
    namespace: DnsLabel,
) -> Result<(JobExecutor<'a>, Option<String>), String> {
    claim::check(object.data.get("status"), &kind.shared.controller)?;
    let mut memory = known.memory.lock().unwrap_or_else(PoisonError::into_inner);
    let ((generation, job), invalid) = memory.read_job(kind.kind.kind, object).map_err(|finding| describe(&finding))?;
    memory.read_status(kind.kind.dialect, object).map_err(|error| {
        format!("{error}; it is left alone: run the version of Flexor that wrote it, or delete the job")
    })?;
    drop(memory);
    let (dialect, subject) = (kind.kind.dialect, plans::subject(&kind.kind.resource, object));
    let complaint = invalid.map(|finding| {
        format!("{}; until that is corrected, the job goes on as it was before the edit", describe(&finding))
    });
    let executor = JobExecutor {
        shared: &kind.shared,
        resource: &kind.kind.resource,
        events: JobEvents { dialect, job: Arc::clone(&job), subject },
        reports: &known.reports,
        plans: plans_of(kind, object),
        plan_resource: kind.plans.as_ref().map(|(plan, _)| &plan.resource),
        job,
        name: object.name_any(),
        namespace,
        uid: JobUid::from(uid.as_str()),
        generation: u64::try_from(generation).unwrap_or_default(),
        memory: &known.memory,
    };
    Ok((executor, complaint))
}

fn linked<'a>(executor: &'a JobExecutor<'_>, kind: &'a JobKind, known: &'a KnownJob) -> LinkedJob<'a> {
    LinkedJob { shared: &kind.shared, queues: &kind.queues, events: &executor.events, reports: &known.reports }
}

/// The plans for a job, each with its version and generation.
fn plans_of(kind: &JobKind, object: &DynamicObject) -> Vec<(ObservedPlan, String, Option<i64>)> {
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
            let (observed, _) = plans::observe(plan_kind, plan).ok()?;
            Some((observed, plan.resource_version().unwrap_or_default(), plan.metadata.generation))
        })
        .collect()
}

/// Writes the status again where it would say something else, at a slow pace: what changes back before is not written.
/// Returns when it may do so.
async fn inform(executor: &JobExecutor<'_>) -> Option<UnixTime> {
    let (status, shown) = {
        let memory = executor.memory();
        if memory.is_deleted || memory.is_outdated || memory.status.created_at.is_none() {
            return None;
        }
        (memory.status.clone(), memory.shown.clone())
    };
    let (conditions, json) = executor.render_status(&status);
    {
        let mut memory = executor.memory();
        if json == shown {
            memory.differs_since = None;
            return None;
        }
        let since = *memory.differs_since.get_or_insert(now());
        let due = memory.last_write.unwrap_or_default().max(since) + INFORM_EVERY;
        if due > now() {
            return Some(due);
        }
    }
    let written = tokio::time::timeout(REQUEST_TIMEOUT, executor.write_status(json)).await;
    match written.unwrap_or(Err(ExecuteError::NoAnswer)) {
        Ok(()) => {
            let mut memory = executor.memory();
            (memory.conditions, memory.differs_since) = (conditions, None);
            None
        }
        // What the object has become is about to come in.
        Err(_) if executor.memory().is_outdated => None,
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
