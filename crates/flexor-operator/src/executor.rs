//! One job on the cluster as the controller's [`Executor`]: what is observed of it, and how an action becomes requests.
//!
//! It knows no custom resource type: a job is an owner to name, a resource whose status is patched, and the neutral
//! description. Pods and services are created by POST and deleted with their uid as a precondition. No request is
//! repeated here: what failed is decided again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use flexor_control::{Executor, planning_of};
use flexor_dialects::{PlanStatusInput, PodCounts, StatusInput};
use flexor_engine::controller::{
    Action, DesiredPod, DesiredService, Event, ExecutorState, JobStatus, ObservedJob, ObservedPlan, ObservedPod,
    PlanPhase, PlanStatus, PodPhase, RefusedCreate,
};
use flexor_engine::render::{
    self, FlexorProgram, ID_LABEL, JOB_UID_LABEL, Owner, RANK_LABEL, ROLE_LABEL, RenderContext, ServiceAddresses,
    TokenPlace,
};
use flexor_model::{DnsLabel, Job, JobUid, Program, Reason, RoleName, UnixTime};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::discovery::ApiResource;
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::job_events::JobEvents;
use crate::job_memory::{JobMemory, ServiceChange};
use crate::job_tokens::JobTokens;
use crate::master_link::{self, SharedReports};
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use crate::owned_objects::OwnedObjects;
use crate::planning::Planning;
use crate::recorder::Recorder;
use crate::slim_pod::SlimPod;
use crate::{claim, refusal, status_patch};

/// A request that has no answer by then is given up. The library would wait for ever on a connection that was dropped.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Where a master keeps its journal, in its own pod.
const MASTER_STATE: &str = "/var/lib/flexor";
/// Where Kubernetes reads why a container ended.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// What all jobs share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) image: String,
    /// Which controller this is, in the statuses of its jobs.
    pub(crate) controller: String,
    pub(crate) pods: OwnedObjects<SlimPod>,
    pub(crate) services: OwnedObjects<PartialObjectMeta<Service>>,
    pub(crate) nodes: Nodes,
    pub(crate) planning: Planning,
    pub(crate) recorder: Recorder,
    pub(crate) tokens: JobTokens,
    /// Whether masters are dialled; fake nodes have none.
    pub(crate) feeds_masters: bool,
    /// For tests: after so many actions the process ends at once, as if it were killed.
    pub(crate) actions_left: Option<AtomicU64>,
    pub(crate) metrics: Metrics,
}

/// One job, for one reconciliation.
pub(crate) struct JobExecutor<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) resource: &'a ApiResource,
    pub(crate) job: Arc<Job>,
    pub(crate) events: JobEvents,
    /// What the job's master has reported.
    pub(crate) reports: &'a SharedReports,
    pub(crate) name: String,
    pub(crate) namespace: DnsLabel,
    pub(crate) uid: JobUid,
    pub(crate) generation: u64,
    /// The job's plans, with the version and the generation of each.
    pub(crate) plans: Vec<(ObservedPlan, String, Option<i64>)>,
    pub(crate) plan_resource: Option<&'a ApiResource>,
    pub(crate) memory: &'a Mutex<JobMemory>,
}

/// Why an action could not be executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecuteError {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error("{0} exists and is not of this job; delete it or rename the job")]
    NotOurs(String),
    #[error("{0} terminates; its successor waits until it is gone")]
    Terminating(String),
    #[error("{0} cannot be created")]
    Refused(String),
    #[error("the API server did not answer within {} s", REQUEST_TIMEOUT.as_secs())]
    NoAnswer,
    #[error("the rendered object is no {0}: {1}")]
    Rendered(&'static str, serde_json::Error),
    #[error("the job has no role {0}")]
    NoRole(RoleName),
}

impl ExecuteError {
    /// Whether the object was written by another since it was read.
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if refusal::is_conflict(status))
    }
}

pub(crate) fn now() -> UnixTime {
    SystemTime::now().into()
}

impl Executor for JobExecutor<'_> {
    type JobKey = ();
    type Error = ExecuteError;

    fn now(&self) -> UnixTime {
        now()
    }

    fn observe<T>(&self, (): &(), view: impl FnOnce(&ObservedJob<'_>) -> T) -> Option<T> {
        let pods = self.observed_pods();
        let services = self.observed_services();
        let mut memory = self.memory();
        if memory.is_deleted {
            return None;
        }
        let names: BTreeSet<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
        let uids: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        memory.catch_up(&names, &uids, &services.cached);
        let versions =
            self.plans.iter().map(|(plan, version, _)| (plan.plan.name.as_str(), version.as_str())).collect();
        memory.catch_up_with_plans(&versions);
        let plans = self.observed_plans(&memory);
        let reports = master_link::lock(self.reports);
        let assignment = self.shared.planning.assignment(&self.uid.to_string());
        Some(view(&ObservedJob {
            job: &self.job,
            generation: self.generation,
            uid: &self.uid,
            namespace: &self.namespace,
            deleting: false,
            status: &memory.status,
            pods: &pods,
            services: &services.with(&memory.services),
            plans: &plans,
            released: &reports.released,
            closed: reports.closed.as_ref(),
            planning: planning_of(&self.job, &memory.status, assignment.as_deref()),
            executor: &ExecutorState { largest_node: self.shared.nodes.largest(), ..memory.executor.clone() },
        }))
    }

    /// Only what a person can do something about is news. What is refused shows in the job's status, and the rest passes.
    fn reason_of(error: &ExecuteError) -> Option<Reason> {
        match error {
            ExecuteError::Api(kube::Error::Api(status)) if refusal::is_refusal(status) => Some(Reason::CreateRefused),
            ExecuteError::NotOurs(_) | ExecuteError::Rendered(..) | ExecuteError::NoRole(_) => {
                Some(Reason::CreateRefused)
            }
            ExecuteError::Api(_) | ExecuteError::Terminating(_) | ExecuteError::Refused(_) | ExecuteError::NoAnswer => {
                None
            }
        }
    }

    async fn execute(&self, (): &(), action: Action) -> Result<(), ExecuteError> {
        if let Action::NoteStatus(status) = action {
            self.memory().status = *status;
            return Ok(());
        }
        let created = match &action {
            Action::CreatePod(desired) => Some(desired.name.clone()),
            _ => None,
        };
        let executed = timeout(REQUEST_TIMEOUT, self.execute_one(action)).await.unwrap_or_else(|_| {
            // Nobody knows whether the pod is there now: its creation is tried again.
            created.iter().for_each(|pod| _ = self.memory().executor.outstanding.remove(pod));
            Err(ExecuteError::NoAnswer)
        });
        if let Err(error) = &executed {
            tracing::info!(job = self.name, namespace = %self.namespace, %error, "an action fails and is decided again");
        }
        if let Some(left) = &self.shared.actions_left
            && left.fetch_sub(1, Ordering::Relaxed) <= 1
        {
            std::process::abort();
        }
        executed
    }

    fn is_refused(&self, (): &(), pod: &str) -> bool {
        self.memory().executor.refused.contains_key(pod)
    }

    fn record(&self, (): &(), event: Event) {
        self.events.record(self.shared, &event);
    }
}

/// The services of the cache.
struct Services {
    cached: BTreeSet<String>,
}

impl Services {
    /// With the changes that the cache does not show yet.
    fn with(&self, changes: &BTreeMap<String, ServiceChange>) -> BTreeSet<String> {
        let mut all = self.cached.clone();
        for (name, change) in changes {
            match change {
                ServiceChange::Created => all.insert(name.clone()),
                ServiceChange::Deleted => all.remove(name),
            };
        }
        all
    }
}

impl JobExecutor<'_> {
    async fn execute_one(&self, action: Action) -> Result<(), ExecuteError> {
        match action {
            Action::CreatePod(desired) => self.create_pod(&desired).await,
            Action::DeletePod { name, uid, force, cause } => {
                tracing::info!(job = self.name, namespace = %self.namespace, pod = name, reason = %cause.reason, message = cause.message, "delete pod");
                self.delete_pod(&name, &uid, force).await?;
                // The event about its replacement says it.
                if cause.reason != Reason::PodReplaced {
                    self.record(&(), Event { pod: Some(name), cause });
                }
                Ok(())
            }
            Action::CreateService(desired) => self.create_service(&desired).await,
            Action::DeleteService { name } => self.delete_service(&name).await,
            Action::SetStatus(status) | Action::NoteStatus(status) => {
                let (conditions, shown) = self.render_status(&status);
                self.write_status(shown).await?;
                let mut memory = self.memory();
                (memory.status, memory.conditions) = (*status, conditions);
                Ok(())
            }
            Action::SetPlanStatus { plan, status } => self.write_plan_status(&plan, status).await,
            Action::Record(event) | Action::RecordLoss { event, .. } => {
                self.record(&(), event);
                Ok(())
            }
            Action::DeleteJob { cause } => {
                tracing::info!(job = self.name, namespace = %self.namespace, reason = %cause.reason, message = cause.message, "delete job");
                let params =
                    DeleteParams { preconditions: uid_is(&self.uid.to_string()), ..DeleteParams::background() };
                gone_is_done(self.objects().delete(&self.name, &params).await.map(drop))?;
                self.memory().is_deleted = true;
                Ok(())
            }
        }
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, JobMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn objects(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.shared.client.clone(), self.namespace.as_str(), self.resource)
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.shared.client.clone(), self.namespace.as_str())
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.shared.client.clone(), self.namespace.as_str())
    }

    /// The status that was read or written last.
    pub(crate) fn status(&self) -> JobStatus {
        self.memory().status.clone()
    }

    pub(crate) fn observed_pods(&self) -> Vec<ObservedPod> {
        let pods = self.shared.pods.of_job(self.namespace.as_str(), &self.uid.to_string());
        let memory = self.memory();
        let is_overdue = |pod: &SlimPod| {
            // What was removed by force and is still shown goes as soon as the watch has caught up.
            self.shared.nodes.is_overdue(pod) && pod.uid().is_none_or(|uid| !memory.forced_pods.contains(&uid))
        };
        let observed = pods.iter().filter_map(|pod| pod.observe(&self.job, is_overdue(pod)));
        observed
            .map(|pod| {
                let deleting = pod.deleting || memory.deleted_pods.contains(&pod.uid);
                ObservedPod { deleting, ..pod }
            })
            .collect()
    }

    /// When the next of its pods may be removed by force.
    pub(crate) fn next_overdue_at(&self) -> Option<UnixTime> {
        let pods = self.shared.pods.of_job(self.namespace.as_str(), &self.uid.to_string());
        pods.iter().filter_map(|pod| self.shared.nodes.overdue_at(pod)).filter(|at| *at > now()).min()
    }

    fn observed_services(&self) -> Services {
        let services = self.shared.services.of_job(self.namespace.as_str(), &self.uid.to_string());
        Services { cached: services.iter().map(|service| service.name_any()).collect() }
    }

    fn observed_plans(&self, memory: &JobMemory) -> Vec<ObservedPlan> {
        let plans = self.plans.iter().map(|(plan, version, _)| {
            let written = memory.plans.get(plan.plan.name.as_str());
            let newer = written.filter(|(written_at, _)| crate::job_memory::is_older(version, written_at));
            let status = newer.map_or_else(|| plan.status.clone(), |(_, status)| status.clone());
            ObservedPlan { status, ..plan.clone() }
        });
        plans.collect()
    }

    /// Has `view` render with what depends on this cluster.
    pub(crate) fn with_context<T>(&self, view: impl FnOnce(&RenderContext<'_>) -> T) -> T {
        let uid = self.uid.to_string();
        view(&RenderContext {
            job: &self.job,
            uid: &self.uid,
            namespace: &self.namespace,
            owner: Owner {
                api_version: &self.resource.api_version,
                kind: &self.resource.kind,
                name: &self.name,
                uid: &uid,
            },
            flexor: FlexorProgram::Image(&self.shared.image),
            addresses: &ServiceAddresses { job: &self.job, uid: &self.uid, namespace: &self.namespace },
            master_state: MASTER_STATE,
            error_file: &|_| TERMINATION_LOG.to_owned(),
            token: self.has_token().then(|| TokenPlace::Secret(self.token_secret())),
        })
    }

    async fn create_pod(&self, desired: &DesiredPod) -> Result<(), ExecuteError> {
        let name = desired.name.as_str();
        let role = self.job.roles.iter().find(|role| role.name == desired.role);
        let role = role.ok_or_else(|| ExecuteError::NoRole(desired.role.clone()))?;
        let pod: Pod = typed("Pod", self.with_context(|context| render::pod(context, role, desired)))?;
        // Before the request: the pod may be gone again before its answer is here, and then it is not outstanding.
        self.memory().executor.outstanding.insert(name.to_owned());
        let created = match self.create_token().await {
            Ok(()) => {
                self.shared.metrics.creates.inc();
                self.pods().create(&PostParams::default(), &pod).await.map(drop)
            }
            Err(error) => Err(error),
        };
        let result = match created {
            Ok(()) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => self.check_existing_pod(name, &pod).await,
            Err(kube::Error::Api(status)) if refusal::is_refusal(&status) => {
                tracing::warn!(job = self.name, namespace = %self.namespace, pod = name, message = status.message, "create pod: refused");
                let executor = &mut self.memory().executor;
                executor.outstanding.remove(name);
                note_refusal(&mut executor.refused, name, &status.message);
                return Ok(());
            }
            Err(error) => Err(error.into()),
        };
        let mut memory = self.memory();
        match &result {
            Ok(()) => {
                tracing::info!(job = self.name, namespace = %self.namespace, pod = name, reason = %desired.cause.reason, message = desired.cause.message, "create pod");
                memory.executor.refused.remove(name);
            }
            Err(_) => _ = memory.executor.outstanding.remove(name),
        }
        result
    }

    /// A job without a master has no token: nobody would ask for it.
    fn has_token(&self) -> bool {
        self.job.roles.iter().any(|role| role.program == Program::FlexorMaster)
    }

    /// The name of the Secret with the job's token. A job of the same name has another one.
    fn token_secret(&self) -> String {
        format!("flexor-token-{}", self.uid)
    }

    /// Creates the Secret with the job's token, once. One that exists has the same token: it is derived from the uid.
    async fn create_token(&self) -> Result<(), kube::Error> {
        if !self.has_token() || self.memory().has_token {
            return Ok(());
        }
        let text = self.shared.tokens.text(&self.uid.to_string());
        let secret = self.with_context(|context| render::token_secret(context, &self.token_secret(), &text));
        let secret: Secret = serde_json::from_value(secret).map_err(kube::Error::SerdeError)?;
        let api = Api::<Secret>::namespaced(self.shared.client.clone(), self.namespace.as_str());
        match api.create(&PostParams::default(), &secret).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => drop(created?),
        }
        self.memory().has_token = true;
        Ok(())
    }

    /// An object that exists already is done if this job owns it and it does not terminate, and if the operator sees it as
    /// what it is: its own labels are those of `rendered`. Returns whether they are.
    fn check_existing<K>(
        &self,
        name: &str,
        existing: &PartialObjectMeta<K>,
        rendered: &impl ResourceExt,
    ) -> Result<bool, ExecuteError>
    where
        PartialObjectMeta<K>: ResourceExt,
    {
        let owner = existing.owner_references().iter().find(|owner| owner.controller == Some(true));
        let is_ours = owner.is_some_and(|owner| owner.uid == self.uid.to_string());
        // What a deleted job of the same name owned is collected by Kubernetes.
        let is_of_predecessor = owner.is_some_and(|owner| {
            (&owner.api_version, &owner.kind, &owner.name)
                == (&self.resource.api_version, &self.resource.kind, &self.name)
        });
        if existing.metadata.deletion_timestamp.is_some() || (is_of_predecessor && !is_ours) {
            return Err(ExecuteError::Terminating(name.to_owned()));
        }
        if !is_ours {
            return Err(ExecuteError::NotOurs(name.to_owned()));
        }
        let is_own = |key: &&String| [JOB_UID_LABEL, ROLE_LABEL, ID_LABEL, RANK_LABEL].contains(&key.as_str());
        let is_same = |key: &String| existing.labels().get(key) == rendered.labels().get(key);
        Ok(rendered.labels().keys().filter(is_own).all(is_same))
    }

    /// A pod whose labels somebody changed is not seen any more, or seen as another: it is replaced.
    async fn check_existing_pod(&self, name: &str, rendered: &Pod) -> Result<(), ExecuteError> {
        let existing = self.pods().get_metadata(name).await?;
        if self.check_existing(name, &existing, rendered)? {
            return Ok(());
        }
        tracing::warn!(job = self.name, namespace = %self.namespace, pod = name, "delete pod: its labels were changed");
        self.delete_pod(name, &existing.uid().unwrap_or_default(), false).await?;
        Err(ExecuteError::Terminating(name.to_owned()))
    }

    async fn delete_pod(&self, name: &str, uid: &str, force: bool) -> Result<(), ExecuteError> {
        let params = DeleteParams {
            preconditions: uid_is(uid),
            grace_period_seconds: force.then_some(0),
            ..DeleteParams::default()
        };
        gone_is_done(self.pods().delete(name, &params).await.map(drop))?;
        self.shared.metrics.deletes.inc();
        let mut memory = self.memory();
        memory.deleted_pods.insert(uid.to_owned());
        if force {
            memory.forced_pods.insert(uid.to_owned());
        }
        Ok(())
    }

    async fn create_service(&self, desired: &DesiredService) -> Result<(), ExecuteError> {
        let role = self.job.roles.iter().find(|role| role.name == desired.role);
        let role = role.ok_or_else(|| ExecuteError::NoRole(desired.role.clone()))?;
        let service: Service = typed("Service", self.with_context(|context| render::service(context, role, desired)))?;
        let name = desired.name.as_str();
        match self.services().create(&PostParams::default(), &service).await {
            Ok(_) => {
                tracing::info!(job = self.name, namespace = %self.namespace, service = name, "create service");
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.check_existing_service(name, &service).await?;
            }
            Err(kube::Error::Api(status)) if refusal::is_refusal(&status) => {
                tracing::warn!(job = self.name, namespace = %self.namespace, service = name, message = status.message, "create service: refused");
                note_refusal(&mut self.memory().executor.refused_services, name, &status.message);
                // The pass ends: pods are created after their services.
                return Err(ExecuteError::Refused(format!("service {name}")));
            }
            Err(error) => return Err(error.into()),
        }
        let mut memory = self.memory();
        memory.executor.refused_services.remove(name);
        memory.services.insert(name.to_owned(), ServiceChange::Created);
        Ok(())
    }

    /// A service whose label somebody removed is not seen any more: it is deleted, and created again.
    async fn check_existing_service(&self, name: &str, rendered: &Service) -> Result<(), ExecuteError> {
        let existing = self.services().get_metadata(name).await?;
        if self.check_existing(name, &existing, rendered)? {
            return Ok(());
        }
        tracing::warn!(job = self.name, namespace = %self.namespace, service = name, "delete service: its labels were changed");
        let params =
            DeleteParams { preconditions: uid_is(&existing.uid().unwrap_or_default()), ..DeleteParams::default() };
        gone_is_done(self.services().delete(name, &params).await.map(drop))?;
        Err(ExecuteError::Terminating(name.to_owned()))
    }

    async fn delete_service(&self, name: &str) -> Result<(), ExecuteError> {
        let services = self.shared.services.of_job(self.namespace.as_str(), &self.uid.to_string());
        let uid = services.iter().find(|service| service.name_any() == name).and_then(|service| service.uid());
        let params = DeleteParams { preconditions: uid.as_deref().and_then(uid_is), ..DeleteParams::default() };
        gone_is_done(self.services().delete(name, &params).await.map(drop))?;
        self.memory().services.insert(name.to_owned(), ServiceChange::Deleted);
        Ok(())
    }

    /// The status of the job as its kind has it, with the conditions in it.
    pub(crate) fn render_status(&self, status: &JobStatus) -> (Vec<flexor_dialects::JobCondition>, Value) {
        let mut pods: BTreeMap<RoleName, PodCounts> = BTreeMap::new();
        for pod in self.observed_pods() {
            let counts = pods.entry(pod.role).or_default();
            let count = match pod.phase {
                PodPhase::Pending => &mut counts.pending,
                PodPhase::Running => &mut counts.active,
                PodPhase::Succeeded => &mut counts.succeeded,
                PodPhase::Failed => &mut counts.failed,
            };
            *count += 1;
        }
        let memory = self.memory();
        let plans = self.observed_plans(&memory);
        let plan = plans.iter().find(|plan| plan.status.phase == PlanPhase::Scaling);
        let input = StatusInput {
            job: &self.job,
            generation: self.generation,
            status,
            pods: &pods,
            plan: plan.map(|plan| plan.plan.name.as_str()),
            conditions: &memory.conditions,
            now: now(),
        };
        let mut shown = self.events.dialect.status(&input);
        claim::put(&mut shown, &self.shared.controller);
        (self.events.dialect.conditions(&input), shown)
    }

    /// Writes the status of the job; fails if the job has changed since it was read.
    pub(crate) async fn write_status(&self, status: Value) -> Result<(), ExecuteError> {
        let version = self.memory().resource_version.clone();
        let written = status_patch::write(&self.objects(), &self.name, &version, &status).await;
        self.shared.metrics.status_writes.inc();
        let mut memory = self.memory();
        memory.last_write = Some(now());
        match written {
            Ok(version) => {
                (memory.resource_version, memory.shown, memory.is_outdated) = (version, status, false);
                Ok(())
            }
            Err(error) => {
                let error = ExecuteError::from(error);
                // The job's object has changed, and the cache is about to show that.
                memory.is_outdated = error.is_conflict();
                Err(error)
            }
        }
    }

    async fn write_plan_status(&self, name: &str, status: PlanStatus) -> Result<(), ExecuteError> {
        let plan = self.plans.iter().find(|(plan, ..)| plan.plan.name.as_str() == name);
        let (Some((plan, version, generation)), Some(resource)) = (plan, self.plan_resource) else { return Ok(()) };
        let input = PlanStatusInput { status: &status, created_at: plan.created_at, generation: *generation };
        let Some(json) = self.events.dialect.plan_status(input) else { return Ok(()) };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.shared.client.clone(), self.namespace.as_str(), resource);
        let written = self.memory().plans.get(name).map(|(version, _)| version.clone());
        let version =
            written.filter(|written| crate::job_memory::is_older(version, written)).unwrap_or_else(|| version.clone());
        self.shared.metrics.status_writes.inc();
        let version = status_patch::write(&api, name, &version, &json).await?;
        self.memory().plans.insert(name.to_owned(), (version, status));
        Ok(())
    }
}

fn typed<K: DeserializeOwned>(kind: &'static str, json: Value) -> Result<K, ExecuteError> {
    serde_json::from_value(json).map_err(|error| ExecuteError::Rendered(kind, error))
}

fn note_refusal(all: &mut BTreeMap<String, RefusedCreate>, name: &str, message: &str) {
    let attempts = all.get(name).map_or(0, |refused| refused.attempts) + 1;
    all.insert(name.to_owned(), RefusedCreate { message: refusal::describe(message), tried_at: now(), attempts });
}

fn uid_is(uid: &str) -> Option<Preconditions> {
    Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None })
}

/// Deleting what is gone, or what is another incarnation by now, is done.
fn gone_is_done(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        other => other,
    }
}
