//! The cluster's planner in the operator: gathers what has changed, plans, and has the jobs whose assignment changed
//! reconciled.
//!
//! Reconciliations register the jobs that the planner sizes. What it decides about pods is done by the jobs' own
//! controllers, which read their assignment here.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flexor_control::{ClusterPlanner, PlannedJob, may_be_planned, planned_job};
use flexor_engine::Cause;
use flexor_engine::controller::{DesiredPod, JobAssignment, planned_resources};
use flexor_engine::render;
use flexor_model::{NodeId, Rank, Reason, Resources, Role, UnixTime};
use flexor_sched::JobKey;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::discovery::ApiResource;
use kube::runtime::reflector::Store;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::cluster_pods::{self, ClusterPods};
use crate::executor::{JobExecutor, Shared, now};
use crate::owned_objects::JobRef;
use crate::watches::Queues;

/// Changes that come within this time are planned together.
const GATHER: Duration = Duration::from_millis(300);
/// The first plan waits for this long until every job was reconciled once.
const FIRST_PLAN_WITHIN: Duration = Duration::from_secs(30);

/// The planned jobs and their assignments.
#[derive(Default)]
pub(crate) struct Planning {
    jobs: Mutex<Jobs>,
    /// Something has changed that the planner counts.
    pub(crate) changed: Arc<Notify>,
}

struct Jobs {
    /// By uid.
    planned: BTreeMap<String, Registered>,
    assignments: HashMap<String, Arc<JobAssignment>>,
    /// The uids of jobs that were reconciled before the first plan.
    seen: Option<HashSet<String>>,
}

impl Default for Jobs {
    fn default() -> Self {
        Self { planned: BTreeMap::new(), assignments: HashMap::new(), seen: Some(HashSet::new()) }
    }
}

struct Registered {
    reference: JobRef,
    job: PlannedJob,
}

impl Planning {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is assigned to a job.
    pub(crate) fn assignment(&self, uid: &str) -> Option<Arc<JobAssignment>> {
        self.lock().assignments.get(uid).cloned()
    }

    /// The name of a job among the planned ones. Jobs of two kinds may have one name.
    pub(crate) fn key(&self, uid: &str, reference: &JobRef) -> JobKey {
        let name = format!("{}/{}", reference.namespace, reference.name);
        let jobs = self.lock();
        if let Some(known) = jobs.planned.get(uid) {
            return known.job.sized.key.clone();
        }
        let is_taken = jobs.planned.values().any(|known| known.job.sized.key.as_str() == name);
        if is_taken { format!("{name} ({} {uid})", reference.kind).into() } else { name.into() }
    }

    /// Takes in a job as it is, unless it is gone. `Jobs` forgets a job before the planner does.
    fn register(&self, uid: &str, reference: JobRef, job: PlannedJob, exists: impl FnOnce() -> bool) {
        let mut jobs = self.lock();
        if !exists() {
            return;
        }
        let is_news = jobs.planned.get(uid).is_none_or(|known| known.job != job);
        if is_news {
            jobs.planned.insert(uid.to_owned(), Registered { reference, job });
            self.changed.notify_one();
        }
    }

    /// A job is over, gone, or not planned any more.
    pub(crate) fn remove(&self, uid: &str) {
        let mut jobs = self.lock();
        jobs.assignments.remove(uid);
        if jobs.planned.remove(uid).is_some() {
            self.changed.notify_one();
        }
    }

    /// Forgets the jobs of a kind that are not among these.
    pub(crate) fn retain(&self, kind: &ApiResource, uids: &HashSet<String>) {
        let gone: Vec<String> = {
            let jobs = self.lock();
            let is_of_kind = |of: &JobRef| (&of.api_version, &of.kind) == (&kind.api_version, &kind.kind);
            let of_kind = jobs.planned.iter().filter(|(_, known)| is_of_kind(&known.reference));
            of_kind.map(|(uid, _)| uid.clone()).filter(|uid| !uids.contains(uid)).collect()
        };
        gone.iter().for_each(|uid| self.remove(uid));
    }

    /// A job was reconciled.
    pub(crate) fn see(&self, uid: &str) {
        let is_news = self.lock().seen.as_mut().is_some_and(|seen| seen.insert(uid.to_owned()));
        if is_news {
            self.changed.notify_one();
        }
    }

    fn has_jobs(&self) -> bool {
        !self.lock().planned.is_empty()
    }

    /// Whether every job of the caches was reconciled, so that none is taken for unknown.
    fn has_seen_all(&self, stores: &[Store<DynamicObject>]) -> bool {
        let jobs = self.lock();
        let Some(seen) = &jobs.seen else { return true };
        let all = stores.iter().flat_map(Store::state);
        all.filter_map(|job| job.uid()).all(|uid| seen.contains(&uid))
    }
}

impl JobExecutor<'_> {
    /// Tells the planner what the job is like, if it sizes it.
    pub(crate) fn register(&self, created_at: UnixTime, exists: impl FnOnce() -> bool) {
        let (uid, status) = (self.uid.to_string(), self.memory().status.clone());
        if !may_be_planned(&self.job, &status) {
            return self.shared.planning.remove(&uid);
        }
        let reference = JobRef::from(&self.events.subject);
        let key = self.shared.planning.key(&uid, &reference);
        let largest = self.shared.nodes.largest();
        let render = |role: &Role| {
            let resources = planned_resources(&self.job, &status, role, &Resources::default(), &largest);
            let desired = DesiredPod {
                name: role.name.to_string(),
                role: role.name.clone(),
                id: NodeId(0),
                rank: Rank(0),
                relaunches: 0,
                labels: BTreeMap::new(),
                replicas: BTreeMap::new(),
                resources,
                is_limited: false,
                memory: None,
                place: None,
                cause: Cause::new(Reason::PodWanted, ""),
            };
            self.with_context(|context| render::pod(context, role, &desired))
        };
        let planned = planned_job(&key, &self.job, &status, (created_at, 0), render);
        self.shared.planning.register(&uid, reference, planned, exists);
    }
}

/// Plans whenever something changes, from the first job that is to be planned.
pub(crate) async fn run(shared: Arc<Shared>, queues: Queues, stores: Vec<Store<DynamicObject>>) -> &'static str {
    let planning = &shared.planning;
    while !planning.has_jobs() {
        planning.changed.notified().await;
    }
    let (pods, complete) = (Arc::new(ClusterPods::default()), Arc::new(Notify::new()));
    // The set ends its task with this one.
    let mut watching = JoinSet::new();
    let watch = cluster_pods::watch_all(
        shared.client.clone(),
        Arc::clone(&pods),
        Arc::clone(&planning.changed),
        Arc::clone(&complete),
    );
    watching.spawn(watch);
    complete.notified().await;
    let all_seen = async {
        while !planning.has_seen_all(&stores) {
            planning.changed.notified().await;
        }
    };
    if timeout(FIRST_PLAN_WITHIN, all_seen).await.is_err() {
        tracing::warn!("some jobs cannot be reconciled; the planner begins without them");
    }
    planning.lock().seen = None;
    let mut planner = ClusterPlanner::default();
    loop {
        // Without planned jobs there is nothing to plan for, whatever other pods do.
        let next_at = if planning.has_jobs() { plan(&mut planner, &shared, &queues, &pods) } else { None };
        let wait = next_at.map_or(Duration::MAX, |at| at.saturating_sub(now()));
        tokio::select! {
            () = planning.changed.notified() => sleep(GATHER).await,
            () = sleep(wait) => {}
            _ = watching.join_next() => return "the watch of all pods",
        }
    }
}

/// Plans once. Returns when to plan again if nothing changes.
fn plan(planner: &mut ClusterPlanner, shared: &Shared, queues: &Queues, pods: &ClusterPods) -> Option<UnixTime> {
    let (jobs, known): (Vec<PlannedJob>, HashMap<String, (String, JobKey)>) = {
        let jobs = shared.planning.lock();
        let of = |(uid, known): (&String, &Registered)| {
            (uid.clone(), (known.reference.namespace.clone(), known.job.sized.key.clone()))
        };
        (jobs.planned.values().map(|known| known.job.clone()).collect(), jobs.planned.iter().map(of).collect())
    };
    let key = |namespace: &str, uid: &str| {
        known.get(uid).filter(|(its_namespace, _)| its_namespace == namespace).map(|(_, key)| key.clone())
    };
    let pods = pods.for_planner(key);
    let (_, next_at) = planner.plan(&shared.nodes.for_planner(), &pods, &jobs, now());
    let mut registered = shared.planning.lock();
    let Jobs { planned, assignments, .. } = &mut *registered;
    for (uid, known) in planned.iter() {
        let Some(assignment) = planner.assignment(&known.job.sized.key) else { continue };
        // A job that was made again under its name may get what its predecessor had.
        if assignments.get(uid).is_some_and(|before| Arc::ptr_eq(before, &assignment)) {
            continue;
        }
        tracing::info!(
            job = known.job.sized.key.as_str(),
            held = assignment.held.as_ref().map(|cause| cause.message.as_str()),
            replicas = sizes(&assignment),
            "plan"
        );
        assignments.insert(uid.clone(), assignment);
        queues.push(&known.reference);
    }
    next_at
}

/// `master 1, pserver 2, trainer 237`.
fn sizes(assignment: &JobAssignment) -> String {
    let sizes = assignment.roles.iter().map(|(role, assigned)| format!("{role} {}", assigned.ranks.len()));
    sizes.collect::<Vec<_>>().join(", ")
}
