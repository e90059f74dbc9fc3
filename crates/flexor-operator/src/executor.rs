//! One job on the cluster as the controller's [`Executor`]: what is observed of it, and how an action becomes requests.
//!
//! It knows no custom resource type: a job is an owner to name, a resource whose status is patched, and the neutral
//! description. Pods and services are created by POST and deleted with their uid as a precondition. No request is
//! repeated here: what failed is decided again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use flexor_control::Executor;
use flexor_dialects::{Dialect, EventInput, PodCounts, StatusInput};
use flexor_engine::controller::{
    Action, DesiredPod, DesiredService, Event, ObservedJob, ObservedPlan, ObservedPod, PlanPhase, PlanStatus, PodPhase,
    RefusedCreate,
};
use flexor_engine::render::{self, FlexorProgram, Owner, RenderContext, ServiceAddresses};
use flexor_model::{DnsLabel, Job, JobUid, RoleName, UnixTime};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::core::Status;
use kube::discovery::ApiResource;
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::job_memory::{JobMemory, ServiceChange};
use crate::metrics::Metrics;
use crate::owned_objects::OwnedObjects;
use crate::recorder::{Recorder, Subject};
use crate::slim_pod::SlimPod;
use crate::status_patch;

/// Where a master keeps its journal, in its own pod.
const MASTER_STATE: &str = "/var/lib/flexor";
/// Where Kubernetes reads why a container ended.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// What all jobs share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) image: String,
    pub(crate) pods: OwnedObjects<SlimPod>,
    pub(crate) services: OwnedObjects<kube::core::PartialObjectMeta<Service>>,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
}

/// One job, for one reconciliation.
pub(crate) struct JobExecutor<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) resource: &'a ApiResource,
    pub(crate) dialect: &'static Dialect,
    pub(crate) job: Arc<Job>,
    pub(crate) name: String,
    pub(crate) namespace: DnsLabel,
    pub(crate) uid: JobUid,
    pub(crate) generation: u64,
    /// The job's plans, with the resource and version of each.
    pub(crate) plans: Vec<(ObservedPlan, String)>,
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
    #[error("the rendered object is no {0}: {1}")]
    Rendered(&'static str, serde_json::Error),
    #[error("the job has no role {0}")]
    NoRole(RoleName),
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
        let plans = self.observed_plans(&memory);
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
            released: &BTreeSet::new(),
            closed: None,
            executor: &memory.executor,
        }))
    }

    async fn execute(&self, (): &(), action: Action) -> Result<(), ExecuteError> {
        match action {
            Action::CreatePod(desired) => self.create_pod(&desired).await,
            Action::DeletePod { name, uid, force, cause } => {
                tracing::info!(job = self.name, namespace = %self.namespace, pod = name, reason = %cause.reason, message = cause.message, "delete pod");
                self.delete_pod(&name, &uid, force).await?;
                self.record(&(), Event { pod: Some(name), cause });
                Ok(())
            }
            Action::CreateService(desired) => self.create_service(&desired).await,
            Action::DeleteService { name } => self.delete_service(&name).await,
            Action::SetStatus(status) => {
                let (conditions, shown) = self.render_status(&status);
                self.write_status(shown).await?;
                let mut memory = self.memory();
                (memory.status, memory.conditions) = (*status, conditions);
                Ok(())
            }
            Action::SetPlanStatus { plan, status } => self.write_plan_status(&plan, status).await,
            Action::Record(event) => {
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

    fn record(&self, (): &(), Event { pod, cause }: Event) {
        let text = self.dialect.event(&EventInput { job: &self.job, pod: pod.as_deref(), cause: &cause });
        tracing::info!(job = self.name, namespace = %self.namespace, pod, reason = %cause.reason, message = cause.message, "event");
        let uid = pod.as_deref().and_then(|pod| {
            let pods = self.shared.pods.of_job(&self.uid.to_string());
            pods.iter().find(|known| known.name_any() == pod)?.uid()
        });
        let job = Subject {
            api_version: self.resource.api_version.clone(),
            kind: self.resource.kind.clone(),
            namespace: self.namespace.to_string(),
            name: self.name.clone(),
            uid: Some(self.uid.to_string()),
        };
        let pod = pod.map(|name| Subject {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: self.namespace.to_string(),
            name,
            uid,
        });
        self.shared.recorder.record(job, pod, text);
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

    fn observed_pods(&self) -> Vec<ObservedPod> {
        let pods = self.shared.pods.of_job(&self.uid.to_string());
        let memory = self.memory();
        let observed = pods.iter().filter_map(|pod| pod.observe(&self.job));
        observed
            .map(|pod| {
                let deleting = pod.deleting || memory.deleted_pods.contains(&pod.uid);
                ObservedPod { deleting, ..pod }
            })
            .collect()
    }

    fn observed_services(&self) -> Services {
        let services = self.shared.services.of_job(&self.uid.to_string());
        Services { cached: services.iter().map(|service| service.name_any()).collect() }
    }

    fn observed_plans(&self, memory: &JobMemory) -> Vec<ObservedPlan> {
        let plans = self.plans.iter().map(|(plan, version)| {
            let written = memory.plans.get(plan.plan.name.as_str());
            let newer = written.filter(|(written_at, _)| crate::job_memory::is_older(version, written_at));
            let status = newer.map_or_else(|| plan.status.clone(), |(_, status)| status.clone());
            ObservedPlan { status, ..plan.clone() }
        });
        plans.collect()
    }

    /// Has `view` render with what depends on this cluster.
    fn with_context<T>(&self, view: impl FnOnce(&RenderContext<'_>) -> T) -> T {
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
            token_file: None,
        })
    }

    async fn create_pod(&self, desired: &DesiredPod) -> Result<(), ExecuteError> {
        let name = desired.name.as_str();
        let role = self.job.roles.iter().find(|role| role.name == desired.role);
        let role = role.ok_or_else(|| ExecuteError::NoRole(desired.role.clone()))?;
        let pod: Pod = typed("Pod", self.with_context(|context| render::pod(context, role, desired)))?;
        // Before the request: the pod may be gone again before its answer is here, and then it is not outstanding.
        self.memory().executor.outstanding.insert(name.to_owned());
        let created = self.pods().create(&PostParams::default(), &pod).await;
        self.shared.metrics.creates.inc();
        let result = match created {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => self.check_existing(self.pods(), name).await,
            Err(kube::Error::Api(status)) if is_refusal(&status) => {
                let mut memory = self.memory();
                memory.executor.outstanding.remove(name);
                let attempts = memory.executor.refused.get(name).map_or(0, |refused| refused.attempts);
                tracing::warn!(job = self.name, namespace = %self.namespace, pod = name, message = status.message, "create pod: refused");
                let refused = RefusedCreate { message: status.message, tried_at: now(), attempts: attempts + 1 };
                memory.executor.refused.insert(name.to_owned(), refused);
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

    /// An object that exists already is done if this job owns it and it does not terminate.
    async fn check_existing<K>(&self, api: Api<K>, name: &str) -> Result<(), ExecuteError>
    where
        K: ResourceExt + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let existing = api.get_metadata(name).await?;
        let is_ours = existing.owner_references().iter().any(|owner| owner.uid == self.uid.to_string());
        match (is_ours, existing.metadata.deletion_timestamp) {
            (true, None) => Ok(()),
            (_, Some(_)) => Err(ExecuteError::Terminating(name.to_owned())),
            (false, None) => Err(ExecuteError::NotOurs(name.to_owned())),
        }
    }

    async fn delete_pod(&self, name: &str, uid: &str, force: bool) -> Result<(), ExecuteError> {
        let params = DeleteParams {
            preconditions: uid_is(uid),
            grace_period_seconds: force.then_some(0),
            ..DeleteParams::default()
        };
        gone_is_done(self.pods().delete(name, &params).await.map(drop))?;
        self.shared.metrics.deletes.inc();
        self.memory().deleted_pods.insert(uid.to_owned());
        Ok(())
    }

    async fn create_service(&self, desired: &DesiredService) -> Result<(), ExecuteError> {
        let role = self.job.roles.iter().find(|role| role.name == desired.role);
        let role = role.ok_or_else(|| ExecuteError::NoRole(desired.role.clone()))?;
        let service: Service = typed("Service", self.with_context(|context| render::service(context, role, desired)))?;
        match self.services().create(&PostParams::default(), &service).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.check_existing(self.services(), &desired.name).await?;
            }
            Err(error) => return Err(error.into()),
        }
        self.memory().services.insert(desired.name.clone(), ServiceChange::Created);
        Ok(())
    }

    async fn delete_service(&self, name: &str) -> Result<(), ExecuteError> {
        gone_is_done(self.services().delete(name, &DeleteParams::default()).await.map(drop))?;
        self.memory().services.insert(name.to_owned(), ServiceChange::Deleted);
        Ok(())
    }

    /// The status of the job as its kind has it, with the conditions in it.
    pub(crate) fn render_status(
        &self,
        status: &flexor_engine::controller::JobStatus,
    ) -> (Vec<flexor_dialects::JobCondition>, Value) {
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
        (self.dialect.conditions(&input), self.dialect.status(&input))
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
                (memory.resource_version, memory.shown) = (version, status);
                Ok(())
            }
            Err(error) => {
                // The next pass begins with what the cache has.
                memory.resource_version = String::new();
                Err(error.into())
            }
        }
    }

    async fn write_plan_status(&self, name: &str, status: PlanStatus) -> Result<(), ExecuteError> {
        let plan = self.plans.iter().find(|(plan, _)| plan.plan.name.as_str() == name);
        let (Some((plan, version)), Some(resource)) = (plan, self.plan_resource) else { return Ok(()) };
        let Some(json) = self.dialect.plan_status(&status, plan.created_at) else { return Ok(()) };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.shared.client.clone(), self.namespace.as_str(), resource);
        let written = self.memory().plans.get(name).map(|(version, _)| version.clone());
        let version =
            written.filter(|written| crate::job_memory::is_older(version, written)).unwrap_or_else(|| version.clone());
        let version = status_patch::write(&api, name, &version, &json).await?;
        self.shared.metrics.status_writes.inc();
        self.memory().plans.insert(name.to_owned(), (version, status));
        Ok(())
    }
}

fn typed<K: DeserializeOwned>(kind: &'static str, json: Value) -> Result<K, ExecuteError> {
    serde_json::from_value(json).map_err(|error| ExecuteError::Rendered(kind, error))
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

/// Whether the API server refuses the object itself: quota, admission, an invalid template. Its own troubles, and a
/// change of its state in between, are none.
fn is_refusal(status: &Status) -> bool {
    (400..500).contains(&status.code) && !matches!(status.code, 401 | 404 | 408 | 409 | 429)
}
