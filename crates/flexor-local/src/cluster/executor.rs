//! The laptop cluster as the controller's [`Executor`]: what it observes of a job, and how it executes an action.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use flexor_control::{Executor, planning_of};
use flexor_engine::controller::{Action, DesiredPod, Event, ExecutorState, ObservedJob, ObservedPod};
use flexor_model::{Reason, UnixTime};
use rustix::process::Signal;
use serde_json::Value;

use super::pod::{PodMeta, PodRecord};
use super::{Cluster, JobKey, State, now, uid};
use crate::pods::interpreter;
use crate::state_dir::StateDir;

impl Executor for Cluster {
    type JobKey = JobKey;
    type Error = io::Error;

    fn now(&self) -> UnixTime {
        now()
    }

    fn reason_of(error: &io::Error) -> Option<Reason> {
        Some(match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Reason::StateDirectoryFull,
            _ => Reason::CreateRefused,
        })
    }

    fn observe<T>(&self, key: &JobKey, view: impl FnOnce(&ObservedJob<'_>) -> T) -> Option<T> {
        let state = self.lock();
        let record = state.jobs.get(key)?;
        let pods = state.observed_pods(key);
        let plans = record.observed_plans();
        let assignment = state.assignment(record);
        Some(view(&ObservedJob {
            job: &record.job,
            generation: record.generation,
            uid: &record.uid,
            namespace: &key.namespace,
            deleting: record.deleting,
            status: &record.status,
            pods: &pods,
            services: &record.services,
            plans: &plans,
            released: &record.released,
            closed: record.closed.as_ref(),
            planning: planning_of(&record.job, &record.status, assignment.as_deref()),
            // A pod that this cluster creates is visible at once.
            executor: &ExecutorState { largest_node: self.machines().largest_node, ..ExecutorState::default() },
        }))
    }

    /// Executes an action under the cluster's lock; it never waits.
    async fn execute(&self, key: &JobKey, action: Action) -> io::Result<()> {
        let state_dir = &self.0.options.state_dir;
        let mut state = self.lock();
        match action {
            Action::CreatePod(desired) => self.create_pod(&mut state, key, *desired)?,
            Action::DeletePod { name, uid, cause, .. } => {
                state.record_event(key, Some(name), cause);
                self.delete_pod(&mut state, &uid)?;
            }
            Action::Record(event) | Action::RecordLoss { event, .. } => {
                state.record_event(key, event.pod, event.cause);
            }
            Action::DeleteJob { cause } => {
                state.record_event(key, None, cause);
                state.forget_job(key, state_dir)?;
            }
            Action::SetStatus(status) | Action::NoteStatus(status) => {
                let Some(record) = state.jobs.get_mut(key) else { return Ok(()) };
                record.change(state_dir, |record| record.status = *status)?;
            }
            Action::SetPlanStatus { plan, status } => {
                let Some(record) = state.jobs.get_mut(key) else { return Ok(()) };
                record.change(state_dir, |record| {
                    if let Some(known) = record.plans.iter_mut().find(|known| known.plan.name.as_str() == plan) {
                        known.status = status;
                    }
                })?;
            }
            // A service is saved with the next change of the job: one that is forgotten is created again.
            Action::CreateService(desired) => {
                let Some(record) = state.jobs.get_mut(key) else { return Ok(()) };
                record.services.insert(desired.name);
            }
            Action::DeleteService { name } => {
                let Some(record) = state.jobs.get_mut(key) else { return Ok(()) };
                record.services.remove(&name);
            }
        }
        Ok(())
    }

    fn record(&self, key: &JobKey, event: Event) {
        let mut state = self.lock();
        if state.jobs.contains_key(key) {
            state.record_event(key, event.pod, event.cause);
            drop(state);
            self.publish();
        }
    }

    fn pass_finished(&self, _: &JobKey) {
        self.publish();
    }
}

impl Cluster {
    /// Creates a pod; it starts once the scheduler admits it.
    fn create_pod(&self, state: &mut State, key: &JobKey, desired: DesiredPod) -> io::Result<()> {
        let state_dir = &self.0.options.state_dir;
        let record = state.jobs.get(key).ok_or_else(|| io::Error::other("the job is gone"))?;
        let Some(role) = record.job.roles.iter().find(|role| role.name == desired.role) else {
            return Err(io::Error::other(format!("the job has no role {}", desired.role)));
        };
        let main = role.template.main().name().to_owned();
        let address = match record.fixed_address(&desired.role, desired.rank) {
            Some(address) => address,
            None => state.addresses.take().ok_or_else(|| io::Error::other("all addresses are in use"))?,
        };
        let mut meta = PodMeta {
            uid: uid(),
            desired,
            job: key.clone(),
            address,
            ports: BTreeMap::new(),
            created_at: now(),
            main,
            grace: Duration::ZERO,
            rendered: Value::Null,
            deleting_since: None,
            evicted: None,
        };
        meta.rendered = self.render_pod(state, &meta)?;
        meta.grace = interpreter::grace(&meta.rendered);
        let pod = PodRecord::waiting(meta);
        state_dir.pod(&pod.meta.uid).begin()?;
        pod.save(state_dir)?;
        state.pods.insert(pod.meta.uid.clone(), pod);
        Ok(())
    }

    /// Terminates a pod; its folder is removed once it has ended.
    pub(super) fn delete_pod(&self, state: &mut State, uid: &str) -> io::Result<()> {
        let state_dir = &self.0.options.state_dir;
        let Some(pod) = state.pods.get_mut(uid) else { return Ok(()) };
        pod.meta.deleting_since.get_or_insert_with(now);
        match pod.supervisor {
            Some(_) => {
                // A full disk must not stop the deletion. A process that takes over finds the pod ended, which is as good.
                if let Err(error) = pod.save(state_dir) {
                    tracing::warn!(pod = pod.meta.desired.name, %error, "the deletion of a pod cannot be saved; the pod is deleted all the same");
                }
                pod.signal_supervisor(Signal::TERM);
            }
            None => state.forget_pod(state_dir, uid),
        }
        Ok(())
    }
}

impl State {
    /// The pods of a job as the controller observes them, by uid.
    pub(super) fn observed_pods(&self, key: &JobKey) -> Vec<ObservedPod> {
        self.pods.values().filter(|pod| pod.meta.job == *key).map(PodRecord::observe).collect()
    }

    /// Removes a job and everything that is kept for it.
    fn forget_job(&mut self, key: &JobKey, state_dir: &StateDir) -> io::Result<()> {
        self.feeds.remove(key);
        self.sockets.retain(|(of, _), _| of != key);
        let Some(record) = self.jobs.remove(key) else { return Ok(()) };
        for place in record.places.values() {
            self.addresses.free(place.address);
        }
        record.remove(state_dir)
    }

    /// Removes a pod that has ended, with its folder.
    pub(super) fn forget_pod(&mut self, state_dir: &StateDir, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        self.remember(&pod);
        let is_fixed = self
            .jobs
            .get(&pod.meta.job)
            .is_some_and(|job| job.places.values().any(|place| place.address == pod.meta.address));
        if !is_fixed {
            self.addresses.free(pod.meta.address);
        }
        crate::limits::forget_pod(state_dir, uid);
        if let Err(error) = state_dir.pod(uid).remove() {
            tracing::warn!(pod = pod.meta.desired.name, %error, "the folder of a pod cannot be removed");
        }
    }
}
