//! API requests: applying jobs and plans, deleting objects, sending signals to programs.
//!
//! A request is saved and wakes the loop. What follows from it the controller decides.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use flexor_client::token_file;
use flexor_engine::controller::{JobStatus, PlanStatus, plan_fits};
use flexor_model::{DnsLabel, Job, JobUid, ObjectName, Plan};
use rustix::process::Signal;
use serde_json::Value;
use thiserror::Error;

use super::{Cluster, JobKey, JobRecord, PlanRecord, PodRecord, State, Timeline, now, uid};
use crate::objects::ObjectError;
use crate::pods::preflight::{self, PreflightError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyOutcome {
    Created,
    Changed,
    Unchanged,
}

/// Why a request is refused. Nothing has changed then.
#[derive(Debug, Error)]
pub enum ApiError {
    /// The object does not exist.
    #[error("there is no {kind} {name} in namespace {namespace}{}", hint(elsewhere.as_ref()))]
    Missing {
        kind: &'static str,
        name: String,
        namespace: DnsLabel,
        /// A namespace that has an object of that name.
        elsewhere: Option<DnsLabel>,
    },
    /// A plan of this name exists with other content.
    #[error("the plan {0} is here and says something else; plans stay as they are, so give yours another name")]
    PlanExists(ObjectName),
    /// The plan asks for what the job does not allow.
    #[error("the plan {plan} cannot be carried out: {why}")]
    PlanDoesNotFit { plan: ObjectName, why: String },
    /// The job of this name is being deleted.
    #[error("the job {0} is being deleted; try again once it is gone")]
    BeingDeleted(JobKey),
    /// The pod has no such container.
    #[error("pod {pod} has no container {container}; it has {}", known.join(", "))]
    NoContainer { pod: String, container: String, known: Vec<String> },
    /// The container does not run.
    #[error("container {container} of pod {pod} does not run; `flexor describe pod {pod}` says why")]
    NotRunning { pod: String, container: String },
    /// The job can never run here.
    #[error("{}", in_a_line(.0))]
    CannotRun(Vec<PreflightError>),
    /// A ConfigMap, Secret or PriorityClass cannot be changed like this.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Cluster {
    /// Creates or changes a job.
    ///
    /// # Errors
    ///
    /// The job cannot run here or cannot be saved, or one of its name is being deleted.
    pub fn apply(&self, mut job: Job, manifest: Value) -> Result<ApplyOutcome, ApiError> {
        let key = JobKey::of(&job);
        // A manifest that names the default namespace is the same as one that names none.
        job.namespace = Some(key.namespace.clone());
        let mut preflight = preflight::of_manifest(&job);
        preflight.extend(preflight::of_machine(&job, &self.0.options.folder));
        let mut state = self.lock();
        let (outcome, record) = match state.jobs.get(&key) {
            Some(known) if known.deleting => return Err(ApiError::BeingDeleted(key)),
            Some(known) if known.job == job => return Ok(ApplyOutcome::Unchanged),
            Some(_) | None if !preflight.is_empty() => return Err(ApiError::CannotRun(preflight)),
            Some(known) => {
                (ApplyOutcome::Changed, JobRecord { job, manifest, generation: known.generation + 1, ..known.clone() })
            }
            None => {
                let record = JobRecord {
                    key: key.clone(),
                    uid: JobUid::from(&*uid()),
                    manifest,
                    job,
                    generation: 1,
                    created_at: now(),
                    deleting: false,
                    status: JobStatus::default(),
                    services: BTreeSet::new(),
                    plans: Vec::new(),
                    conditions: Vec::new(),
                    places: BTreeMap::new(),
                    timeline: Timeline::default(),
                    closed: None,
                    released: BTreeSet::new(),
                    training: None,
                    master_heard_at: None,
                    master_silent_since: None,
                };
                token_file::create(&record.token_file(self.state_dir()))?;
                (ApplyOutcome::Created, record)
            }
        };
        record.save(self.state_dir())?;
        state.jobs.insert(key, record);
        drop(state);
        self.publish();
        self.notify();
        Ok(outcome)
    }

    /// Creates a plan.
    ///
    /// # Errors
    ///
    /// Its job does not exist or does not allow it, another plan of its name exists, or it cannot be saved.
    pub fn apply_plan(&self, mut plan: Plan, manifest: Value) -> Result<ApplyOutcome, ApiError> {
        let namespace = plan.namespace.get_or_insert_with(default_namespace).clone();
        let key = JobKey { namespace, name: plan.job.clone() };
        let mut state = self.lock();
        let missing = state.no_job(&key);
        let record = state.jobs.get_mut(&key).ok_or(missing)?;
        if let Some(known) = record.plans.iter().find(|known| known.plan.name == plan.name) {
            return if known.plan == plan { Ok(ApplyOutcome::Unchanged) } else { Err(ApiError::PlanExists(plan.name)) };
        }
        plan_fits(&plan, &record.job).map_err(|why| ApiError::PlanDoesNotFit { plan: plan.name.clone(), why })?;
        let plan = PlanRecord { manifest, plan, created_at: now(), status: PlanStatus::default() };
        record.change(self.state_dir(), |record| record.plans.push(plan))?;
        drop(state);
        self.publish();
        self.notify();
        Ok(ApplyOutcome::Created)
    }

    /// Deletes a job; it is gone once its pods are. Returns its uid.
    ///
    /// # Errors
    ///
    /// The job does not exist, or the deletion cannot be saved.
    pub fn delete_job(&self, key: &JobKey) -> Result<JobUid, ApiError> {
        let mut state = self.lock();
        let missing = state.no_job(key);
        let record = state.jobs.get_mut(key).ok_or(missing)?;
        let uid = record.uid.clone();
        if !record.deleting {
            record.change(self.state_dir(), |record| record.deleting = true)?;
            drop(state);
            self.notify();
        }
        Ok(uid)
    }

    /// Deletes a plan. The targets that it has set stay.
    ///
    /// # Errors
    ///
    /// The plan does not exist, or the deletion cannot be saved.
    pub fn delete_plan(&self, namespace: &DnsLabel, name: &str) -> Result<(), ApiError> {
        let mut state = self.lock();
        let has = |record: &JobRecord| record.plans.iter().any(|known| known.plan.name.as_str() == name);
        let elsewhere = state.jobs.values().find(|record| has(record)).map(|record| record.key.namespace.clone());
        let record = state.jobs.values_mut().find(|record| record.key.namespace == *namespace && has(record));
        let record = record.ok_or_else(|| missing("scaleplan", name, namespace, elsewhere))?;
        record.change(self.state_dir(), |record| record.plans.retain(|known| known.plan.name.as_str() != name))?;
        drop(state);
        self.publish();
        self.notify();
        Ok(())
    }

    /// Deletes a pod; the controller decides whether it is replaced. Returns its uid.
    ///
    /// # Errors
    ///
    /// The pod does not exist, or the deletion cannot be saved.
    pub fn delete_pod_named(&self, namespace: &DnsLabel, name: &str) -> Result<String, ApiError> {
        let mut state = self.lock();
        let uid = state.pod_named(namespace, name)?.meta.uid.clone();
        self.delete_pod(&mut state, &uid)?;
        drop(state);
        self.publish();
        self.notify();
        Ok(uid)
    }

    /// The pod of this name.
    ///
    /// # Errors
    ///
    /// The pod does not exist.
    pub fn pod_named(&self, namespace: &DnsLabel, name: &str) -> Result<PodRecord, ApiError> {
        self.lock().pod_named(namespace, name).cloned()
    }

    /// Sends a signal to the program of a container, of the main one if none is named.
    ///
    /// # Errors
    ///
    /// There is no such pod or container, or it does not run.
    pub fn signal(
        &self,
        namespace: &DnsLabel,
        pod: &str,
        container: Option<&str>,
        signal: Signal,
    ) -> Result<(), ApiError> {
        let state = self.lock();
        let pod = state.pod_named(namespace, pod)?;
        let container = pod.container(container)?;
        let not_running =
            || ApiError::NotRunning { pod: pod.meta.desired.name.clone(), container: container.to_owned() };
        let program = pod.program(container).ok_or_else(not_running)?;
        if program.send(signal) { Ok(()) } else { Err(not_running()) }
    }

    /// Ends the grace period of all pods that are being deleted.
    pub fn hurry(&self) {
        let state = self.lock();
        for pod in state.pods.values().filter(|pod| pod.is_deleting()) {
            pod.signal_supervisor(Signal::TERM);
        }
    }

    /// Deletes all jobs, pods and other objects. Returns when nothing is left.
    pub async fn drain(&self) {
        let keys: Vec<JobKey> = self.lock().jobs.keys().cloned().collect();
        for key in keys {
            if let Err(error) = self.delete_job(&key) {
                tracing::error!(job = %key, %error, "a job cannot be deleted");
            }
        }
        let mut changes = self.changes();
        while !self.lock().jobs.is_empty() && changes.changed().await.is_ok() {}
        self.end_unmanaged_pods().await;
        self.remove_objects();
    }

    /// Ends the pods of jobs that cannot be read, and puts the files of these jobs aside.
    async fn end_unmanaged_pods(&self) {
        let mut changes = self.changes();
        let uids: Vec<String> = self.lock().pods.keys().cloned().collect();
        for uid in uids {
            if let Err(error) = self.delete_pod(&mut self.lock(), &uid) {
                tracing::error!(%uid, %error, "a pod cannot be deleted");
            }
        }
        self.notify();
        while !self.lock().pods.is_empty() && changes.changed().await.is_ok() {}
        for file in std::mem::take(&mut self.lock().unreadable_jobs) {
            let aside = file.with_extension(format!("json.{}", super::DAMAGED));
            match std::fs::rename(&file, &aside) {
                Ok(()) => tracing::warn!("{} is kept as {}", file.display(), aside.display()),
                Err(error) => tracing::error!(%error, "{} cannot be renamed", file.display()),
            }
        }
    }
}

impl State {
    fn no_job(&self, key: &JobKey) -> ApiError {
        let elsewhere = self.jobs.keys().find(|known| known.name == key.name).map(|known| known.namespace.clone());
        missing("job", key.name.as_str(), &key.namespace, elsewhere)
    }

    /// The pod of this name; of two, the one that is not being deleted.
    fn pod_named(&self, namespace: &DnsLabel, name: &str) -> Result<&PodRecord, ApiError> {
        let named = || self.pods.values().filter(|pod| pod.meta.desired.name == name);
        let here = named().filter(|pod| pod.meta.job.namespace == *namespace).min_by_key(|pod| pod.is_deleting());
        let elsewhere = || named().next().map(|pod| pod.meta.job.namespace.clone());
        here.ok_or_else(|| missing("pod", name, namespace, elsewhere()))
    }
}

impl PodRecord {
    /// The name of a container, of the main one if none is named.
    ///
    /// # Errors
    ///
    /// The pod has no container of that name.
    pub fn container<'a>(&'a self, name: Option<&'a str>) -> Result<&'a str, ApiError> {
        let Some(name) = name else { return Ok(&self.meta.main) };
        let known: Vec<String> =
            self.status.iter().flat_map(|status| &status.containers).map(|known| known.name.clone()).collect();
        if known.iter().any(|known| known == name) {
            return Ok(name);
        }
        Err(ApiError::NoContainer { pod: self.meta.desired.name.clone(), container: name.to_owned(), known })
    }
}

pub(super) fn missing(kind: &'static str, name: &str, namespace: &DnsLabel, elsewhere: Option<DnsLabel>) -> ApiError {
    let elsewhere = elsewhere.filter(|other| other != namespace);
    ApiError::Missing { kind, name: name.to_owned(), namespace: namespace.clone(), elsewhere }
}

fn in_a_line(preflight: &[PreflightError]) -> String {
    preflight.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn hint(elsewhere: Option<&DnsLabel>) -> String {
    elsewhere.map(|namespace| format!("; there is one in {namespace}: add -n {namespace}")).unwrap_or_default()
}

/// The namespace of a job whose manifest names none.
pub(super) fn default_namespace() -> DnsLabel {
    "default".parse().unwrap_or_else(|_| unreachable!("default is the name of a namespace"))
}
