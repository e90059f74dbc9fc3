//! The loop: hears what has changed, has the controller decide, and does what it says.

use std::io;
use std::time::Duration;

use flexor_engine::controller::{self, ObservedJob, PlanSeen, PodSeen, Turn};
use flexor_wire::master::v1 as wire;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::process::{Pid as RawPid, PidfdFlags, pidfd_open};
use tokio::sync::mpsc;

use super::statuses::{Changed, Statuses};
use super::{Cluster, JobKey, State, now};
use crate::readiness::readable;

/// A controller that has not come to rest after so many turns waits for the next change.
const MOST_TURNS: usize = 100;
/// After its grace a pod that is still there is killed.
const AFTER_GRACE: Duration = Duration::from_secs(5);

impl Cluster {
    /// Runs the cluster until this is dropped.
    ///
    /// # Errors
    ///
    /// The system does not let us hear of changes.
    pub async fn run(&self) -> io::Result<()> {
        let mut statuses = Statuses::watch(&self.0.options.home.status())?;
        let (ended, mut ends) = mpsc::unbounded_channel();
        self.look_at(&Changed::All);
        let adopted: Vec<i32> = self.lock().pods.values().filter_map(|pod| Some(pod.parent?.0)).collect();
        for parent in adopted {
            self.await_end(parent, ended.clone());
        }
        loop {
            let (again, started) = self.decide();
            for parent in started {
                self.await_end(parent, ended.clone());
            }
            let timer = async {
                match again {
                    Some(at) => tokio::time::sleep(at.saturating_sub(now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = statuses.changed() => self.look_at(&changed?),
                Some(parent) = ends.recv() => self.parent_ended(parent),
                () = self.0.bell.notified() => {}
                () = timer => {}
            }
        }
    }

    /// Has the controller decide about every job until it comes to rest. When to look again, and which parents have begun.
    fn decide(&self) -> (Option<Duration>, Vec<i32>) {
        let mut again: Option<Duration> = None;
        let mut started = Vec::new();
        let keys: Vec<JobKey> = self.lock().jobs.keys().cloned().collect();
        for key in keys {
            'turns: for _ in 0..MOST_TURNS {
                let Some(turn) = self.lock().turn(&key) else { break };
                if let Some(at) = turn.look_again_at {
                    again = Some(again.map_or(at, |known| known.min(at)));
                }
                if turn.actions.is_empty() {
                    break;
                }
                for action in turn.actions {
                    match self.carry_out(&key, action) {
                        Ok(parent) => started.extend(parent),
                        Err(error) => {
                            tracing::error!(job = %key, %error, "what was decided cannot be done");
                            let later = now() + Duration::from_secs(1);
                            again = Some(again.map_or(later, |known| known.min(later)));
                            break 'turns;
                        }
                    }
                }
                self.announce();
            }
            self.feed(&key);
        }
        let overdue = self.kill_the_overdue();
        again = [again, overdue].into_iter().flatten().min();
        (again, started)
    }

    /// Takes over what parents have written.
    fn look_at(&self, changed: &Changed) {
        let mut state = self.lock();
        let uids: Vec<String> = match changed {
            Changed::All => state.pods.keys().cloned().collect(),
            Changed::These(uids) => uids.clone(),
        };
        for uid in uids {
            let Some(pod) = state.pods.get_mut(&uid) else { continue };
            match self.0.options.home.pod(&uid).status() {
                Ok(Some(status)) => {
                    if pod.parent.is_some() || crate::proc::is_alive(status.parent) {
                        pod.parent = Some(status.parent);
                    }
                    pod.status = Some(status);
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(pod = pod.meta.name, %error, "its status cannot be read"),
            }
        }
        drop(state);
        self.announce();
    }

    /// Hears of the end of a parent, child of ours or not.
    fn await_end(&self, parent: i32, ended: mpsc::UnboundedSender<i32>) {
        let descriptor = RawPid::from_raw(parent).and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok());
        let Some(descriptor) = descriptor.and_then(|descriptor| readable(descriptor).ok()) else {
            let _ = ended.send(parent);
            return;
        };
        tokio::spawn(async move {
            let _ = descriptor.readable().await;
            // Where it is a child of ours, it has to be waited for.
            let _ = waitpid(Pid::from_raw(parent), Some(WaitPidFlag::WNOHANG));
            let _ = ended.send(parent);
        });
    }

    /// A parent has ended: the pod is gone if it was to go, else it has ended or was lost.
    fn parent_ended(&self, parent: i32) {
        flexor_agent::processes::kill_what_it_left(parent.unsigned_abs());
        let uid = {
            let state = self.lock();
            state
                .pods
                .values()
                .find(|pod| pod.parent.is_some_and(|(pid, _)| pid == parent))
                .map(|pod| pod.meta.uid.clone())
        };
        let Some(uid) = uid else { return };
        self.look_at(&Changed::These(vec![uid.clone()]));
        let mut state = self.lock();
        let Some(pod) = state.pods.get_mut(&uid) else { return };
        pod.parent = None;
        if pod.is_deleting() {
            state.forget_pod(&self.0.options.home, &uid);
        }
        drop(state);
        self.announce();
    }

    /// Kills the parents of pods that should be gone by now. When the next will be due.
    fn kill_the_overdue(&self) -> Option<Duration> {
        let state = self.lock();
        let mut next: Option<Duration> = None;
        for pod in state.pods.values() {
            let (Some(since), Some((parent, _))) = (pod.meta.deleting_since, pod.parent) else { continue };
            let grace = self.0.options.home.pod(&pod.meta.uid).plan().map_or(Duration::ZERO, |plan| plan.grace);
            let due = since + grace + AFTER_GRACE;
            if due <= now() {
                tracing::warn!(pod = pod.meta.name, "did not end in time and is killed");
                let _ = nix::sys::signal::kill(Pid::from_raw(parent), nix::sys::signal::Signal::SIGKILL);
            } else {
                next = Some(next.map_or(due, |known| known.min(due)));
            }
        }
        next
    }

    /// Tells the job's master how the pods stand.
    fn feed(&self, key: &JobKey) {
        let mut state = self.lock();
        let Some(observed) = state.observed_by_master(key) else { return };
        let master = state.master_of(key);
        if let Some(master) = master
            && !state.feeds.contains_key(key)
            && let Some(feed) = super::feed::Feed::to(master)
        {
            state.feeds.insert(key.clone(), feed);
        }
        if let Some(feed) = state.feeds.get(key) {
            feed.tell(observed);
        }
    }
}

impl State {
    /// What the controller says about a job.
    fn turn(&self, key: &JobKey) -> Option<Turn> {
        let record = self.jobs.get(key)?;
        let pods: Vec<PodSeen> =
            self.pods.values().filter(|pod| pod.meta.job == *key).map(super::PodRecord::seen).collect();
        let plans: Vec<PlanSeen> = record
            .plans
            .iter()
            .map(|plan| PlanSeen { plan: plan.plan.clone(), created_at: plan.created_at, status: plan.status.clone() })
            .collect();
        let observed = ObservedJob {
            job: &record.job,
            generation: record.generation,
            uid: &record.uid,
            namespace: &key.namespace,
            deleting: record.deleting,
            status: &record.status,
            pods: &pods,
            services: &record.services,
            plans: &plans,
        };
        Some(controller::plan(&observed, now()))
    }

    /// What a master is told: the pods that are to be in the world, and how many there should be.
    fn observed_by_master(&self, key: &JobKey) -> Option<wire::Observed> {
        let record = self.jobs.get(key)?;
        let is_worker = |role: &flexor_model::RoleName| {
            let role = record.job.roles.iter().find(|known| known.name == *role);
            role.is_some_and(|role| role.kind == flexor_model::RoleKind::Worker)
        };
        let pods = self.pods.values().filter(|pod| pod.meta.job == *key && is_worker(&pod.meta.role));
        let pods = pods.map(|pod| wire::Pod {
            name: pod.meta.name.clone(),
            uid: pod.meta.uid.clone(),
            role: pod.meta.role.to_string(),
            phase: format!("{:?}", pod.phase()),
            deleting: pod.is_deleting(),
        });
        let targets = record.status.targets.iter().filter(|(role, _)| is_worker(role));
        let expected = targets.map(|(_, target)| target.replicas).sum();
        Some(wire::Observed { pods: pods.collect(), expected: Some(expected) })
    }
}
