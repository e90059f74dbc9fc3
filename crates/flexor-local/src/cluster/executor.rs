//! Does what the controller says: writes, starts and ends things.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use flexor_engine::controller::{Action, DesiredPod};
use rustix::process::Signal;
use serde_json::Value;

use super::pod::{PodMeta, PodRecord};
use super::{Cluster, JobKey, State, now, uid};
use crate::pods::interpreter;
use crate::state_dir::StateDir;

impl Cluster {
    /// Carries out one action.
    pub(super) fn carry_out(&self, key: &JobKey, action: Action) -> io::Result<()> {
        let state_dir = &self.0.options.state_dir;
        let mut state = self.lock();
        if let Action::CreatePod(desired) = action {
            return self.create_pod(&mut state, key, *desired);
        }
        let Some(record) = state.jobs.get_mut(key) else { return Ok(()) };
        match action {
            Action::SetStatus(status) => record.change(state_dir, |record| record.status = *status)?,
            Action::SetPlanStatus { plan, status } => record.change(state_dir, |record| {
                if let Some(known) = record.plans.iter_mut().find(|known| known.plan.name.as_str() == plan) {
                    known.status = status;
                }
            })?,
            // Written down with whatever is next: one that is forgotten is made again.
            Action::CreateService(desired) => _ = record.services.insert(desired.name),
            Action::DeleteService { name } => _ = record.services.remove(&name),
            Action::DeletePod { name, uid, cause, .. } => {
                state.tell(key, Some(name), cause);
                self.delete_pod(&mut state, &uid)?;
            }
            Action::Record(event) => {
                state.tell(key, event.pod, event.cause);
            }
            Action::DeleteJob { cause } => {
                state.tell(key, None, cause);
                state.forget_job(key, state_dir)?;
            }
            Action::CreatePod(_) => {}
        }
        Ok(())
    }

    /// Makes a pod; it runs once there is room for it.
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
        state.tell(key, Some(pod.meta.desired.name.clone()), pod.meta.desired.cause.clone());
        state.pods.insert(pod.meta.uid.clone(), pod);
        Ok(())
    }

    /// Has a pod end, and its folder removed then.
    pub(super) fn delete_pod(&self, state: &mut State, uid: &str) -> io::Result<()> {
        let state_dir = &self.0.options.state_dir;
        let Some(pod) = state.pods.get_mut(uid) else { return Ok(()) };
        pod.meta.deleting_since.get_or_insert_with(now);
        match pod.supervisor {
            Some(_) => {
                // A full disk must not keep it: who takes over would find it ended, which is as good.
                if let Err(error) = pod.save(state_dir) {
                    tracing::warn!(pod = pod.meta.desired.name, %error, "cannot be written down; it is deleted all the same");
                }
                pod.signal_supervisor(Signal::TERM);
            }
            None => state.forget_pod(state_dir, uid),
        }
        Ok(())
    }
}

impl State {
    /// A job is gone, and all that was held for it.
    fn forget_job(&mut self, key: &JobKey, state_dir: &StateDir) -> io::Result<()> {
        self.feeds.remove(key);
        self.sockets.retain(|(of, _), _| of != key);
        let Some(record) = self.jobs.remove(key) else { return Ok(()) };
        for place in record.places.values() {
            self.addresses.free(place.address);
        }
        record.remove(state_dir)
    }

    /// A pod is gone.
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
            tracing::warn!(pod = pod.meta.desired.name, %error, "its folder cannot be removed");
        }
    }
}
