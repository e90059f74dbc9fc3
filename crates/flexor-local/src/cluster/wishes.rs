//! What people may wish for: jobs and plans to be taken in, things to be deleted, programs to be sent signals.
//!
//! A wish is written down and the loop is told; what follows from it the controller decides.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use flexor_engine::controller::{JobStatus, PlanStatus};
use flexor_model::{DnsLabel, Job, JobUid, ObjectName, Plan};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use thiserror::Error;

use super::{Cluster, JobKey, JobRecord, PlanRecord, PodRecord, State, now};
use crate::pods::status::ContainerState;

/// What became of something that was to be taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It was not there before.
    Created,
    /// It was there, and is different now.
    Changed,
    /// It was there just so.
    Unchanged,
}

/// Why a wish is not granted. Nothing has changed then.
#[derive(Debug, Error)]
pub enum WishError {
    /// What it is about is not there.
    #[error("there is no {kind} {name} in namespace {namespace}{}", hint(elsewhere.as_ref()))]
    Missing {
        /// What it would be.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Where it was looked for.
        namespace: DnsLabel,
        /// Where there is one of that name.
        elsewhere: Option<DnsLabel>,
    },
    /// A plan of this name says something else.
    #[error("the plan {0} is here and says something else; plans stay as they are, so give yours another name")]
    PlanExists(ObjectName),
    /// A job of this name is on its way out.
    #[error("the job {0} is being deleted; try again once it is gone")]
    BeingDeleted(JobKey),
    /// A pod has no such container.
    #[error("pod {pod} has no container {container}; it has {}", known.join(", "))]
    NoContainer {
        /// The pod.
        pod: String,
        /// What was asked for.
        container: String,
        /// What it has.
        known: Vec<String>,
    },
    /// A container does not run.
    #[error("container {container} of pod {pod} does not run; `flexor describe pod {pod}` says why")]
    NotRunning {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Cluster {
    /// Takes a job in, or what has changed of it.
    ///
    /// # Errors
    ///
    /// It cannot be written down, or a job of its name is on its way out.
    pub fn apply(&self, job: Job, manifest: Value) -> Result<Taken, WishError> {
        let key = JobKey { namespace: job.namespace.clone().unwrap_or_else(usual_namespace), name: job.name.clone() };
        let mut state = self.lock();
        let (taken, record) = match state.jobs.get(&key) {
            Some(known) if known.deleting => return Err(WishError::BeingDeleted(key)),
            Some(known) if known.job == job => return Ok(Taken::Unchanged),
            Some(known) => {
                (Taken::Changed, JobRecord { job, manifest, generation: known.generation + 1, ..known.clone() })
            }
            None => {
                let record = JobRecord {
                    key: key.clone(),
                    uid: JobUid::from(&*format!("{:x}", now().as_nanos())),
                    manifest,
                    job,
                    generation: 1,
                    created_at: now(),
                    deleting: false,
                    status: JobStatus::default(),
                    services: BTreeSet::new(),
                    plans: Vec::new(),
                    places: BTreeMap::new(),
                };
                (Taken::Created, record)
            }
        };
        record.save(self.home())?;
        state.jobs.insert(key, record);
        drop(state);
        self.announce();
        self.ring();
        Ok(taken)
    }

    /// Takes a plan in.
    ///
    /// # Errors
    ///
    /// Its job is not there, a plan of its name says something else, or it cannot be written down.
    pub fn apply_plan(&self, plan: Plan, manifest: Value) -> Result<Taken, WishError> {
        let namespace = plan.namespace.clone().unwrap_or_else(usual_namespace);
        let key = JobKey { namespace, name: plan.job.clone() };
        let mut state = self.lock();
        let missing = state.no_job(&key);
        let record = state.jobs.get_mut(&key).ok_or(missing)?;
        if let Some(known) = record.plans.iter().find(|known| known.plan.name == plan.name) {
            return if known.plan == plan { Ok(Taken::Unchanged) } else { Err(WishError::PlanExists(plan.name)) };
        }
        record.plans.push(PlanRecord { manifest, plan, created_at: now(), status: PlanStatus::default() });
        record.save(self.home())?;
        drop(state);
        self.announce();
        self.ring();
        Ok(Taken::Created)
    }

    /// Deletes a job; it is gone once its pods are. Its unique id.
    ///
    /// # Errors
    ///
    /// It is not there, or that cannot be written down.
    pub fn delete_job(&self, key: &JobKey) -> Result<JobUid, WishError> {
        let mut state = self.lock();
        let missing = state.no_job(key);
        let record = state.jobs.get_mut(key).ok_or(missing)?;
        record.deleting = true;
        record.save(self.home())?;
        let uid = record.uid.clone();
        drop(state);
        self.ring();
        Ok(uid)
    }

    /// Deletes a plan. What it has set stays as it is.
    ///
    /// # Errors
    ///
    /// It is not there, or that cannot be written down.
    pub fn delete_plan(&self, namespace: &DnsLabel, name: &str) -> Result<(), WishError> {
        let mut state = self.lock();
        let has = |record: &JobRecord| record.plans.iter().any(|known| known.plan.name.as_str() == name);
        let elsewhere = state.jobs.values().find(|record| has(record)).map(|record| record.key.namespace.clone());
        let record = state.jobs.values_mut().find(|record| record.key.namespace == *namespace && has(record));
        let record = record.ok_or_else(|| missing("scaleplan", name, namespace, elsewhere))?;
        record.plans.retain(|known| known.plan.name.as_str() != name);
        record.save(self.home())?;
        drop(state);
        self.announce();
        self.ring();
        Ok(())
    }

    /// Deletes a pod; whether there is another then is for the controller to say. Its unique id.
    ///
    /// # Errors
    ///
    /// It is not there, or that cannot be written down.
    pub fn delete_pod_named(&self, namespace: &DnsLabel, name: &str) -> Result<String, WishError> {
        let mut state = self.lock();
        let uid = state.pod_named(namespace, name)?.meta.uid.clone();
        self.delete_pod(&mut state, &uid)?;
        drop(state);
        self.announce();
        self.ring();
        Ok(uid)
    }

    /// A pod.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub fn pod_named(&self, namespace: &DnsLabel, name: &str) -> Result<PodRecord, WishError> {
        self.lock().pod_named(namespace, name).cloned()
    }

    /// Sends a signal to the program of a container, the main one where none is named.
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
    ) -> Result<(), WishError> {
        let state = self.lock();
        let pod = state.pod_named(namespace, pod)?;
        let container = pod.container(container)?;
        let statuses = pod.status.iter().flat_map(|status| &status.containers);
        let running = statuses.filter(|known| known.name == container).find_map(|known| match known.state {
            ContainerState::Running { pid, .. } => i32::try_from(pid).ok(),
            ContainerState::Waiting(_) | ContainerState::Terminated { .. } => None,
        });
        let not_running = || WishError::NotRunning { pod: pod.meta.name.clone(), container: container.to_owned() };
        kill(Pid::from_raw(running.ok_or_else(not_running)?), signal).map_err(io::Error::from)?;
        Ok(())
    }

    /// Tells all pods that are to go that they have no more time.
    pub fn hurry(&self) {
        let state = self.lock();
        let going = state.pods.values().filter(|pod| pod.is_deleting());
        for (parent, _) in going.filter_map(|pod| pod.parent) {
            // It may have ended meanwhile, which is what is wanted.
            let _ = kill(Pid::from_raw(parent), Signal::SIGTERM);
        }
    }

    /// Ends all pods and forgets all jobs; comes back when nothing is left.
    pub async fn drain(&self) {
        let keys: Vec<JobKey> = self.jobs().into_iter().map(|job| job.key).collect();
        for key in keys {
            if let Err(error) = self.delete_job(&key) {
                tracing::error!(job = %key, %error, "cannot be deleted");
            }
        }
        let mut changes = self.changes();
        while !self.jobs().is_empty() && changes.changed().await.is_ok() {}
    }
}

impl State {
    fn no_job(&self, key: &JobKey) -> WishError {
        let elsewhere = self.jobs.keys().find(|known| known.name == key.name).map(|known| known.namespace.clone());
        missing("job", key.name.as_str(), &key.namespace, elsewhere)
    }

    /// The pod of this name; the one that is not on its way out, where one of the same name is.
    fn pod_named(&self, namespace: &DnsLabel, name: &str) -> Result<&PodRecord, WishError> {
        let named = || self.pods.values().filter(|pod| pod.meta.name == name);
        let here = named().filter(|pod| pod.meta.job.namespace == *namespace).min_by_key(|pod| pod.is_deleting());
        let elsewhere = || named().next().map(|pod| pod.meta.job.namespace.clone());
        here.ok_or_else(|| missing("pod", name, namespace, elsewhere()))
    }
}

impl PodRecord {
    /// The name of a container, the main one where none is named.
    ///
    /// # Errors
    ///
    /// There is none of that name.
    pub fn container<'a>(&'a self, name: Option<&'a str>) -> Result<&'a str, WishError> {
        let Some(name) = name else { return Ok(&self.meta.main) };
        let known: Vec<String> =
            self.status.iter().flat_map(|status| &status.containers).map(|known| known.name.clone()).collect();
        if known.iter().any(|known| known == name) {
            return Ok(name);
        }
        Err(WishError::NoContainer { pod: self.meta.name.clone(), container: name.to_owned(), known })
    }
}

fn missing(kind: &'static str, name: &str, namespace: &DnsLabel, elsewhere: Option<DnsLabel>) -> WishError {
    let elsewhere = elsewhere.filter(|other| other != namespace);
    WishError::Missing { kind, name: name.to_owned(), namespace: namespace.clone(), elsewhere }
}

fn hint(elsewhere: Option<&DnsLabel>) -> String {
    elsewhere.map(|namespace| format!("; there is one in {namespace}: add -n {namespace}")).unwrap_or_default()
}

/// Where a job is whose manifest names no namespace.
fn usual_namespace() -> DnsLabel {
    "default".parse().unwrap_or_else(|_| unreachable!("default is the name of a namespace"))
}
