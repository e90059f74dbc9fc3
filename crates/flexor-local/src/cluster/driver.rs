//! The loop: hears what has changed, has the controller decide, and does what it says.

use std::io;
use std::time::Duration;

use flexor_agent::processes::kill_orphans_of;
use flexor_engine::Cause;
use flexor_engine::controller::{self, ExecutorState, ObservedJob, ObservedPlan, ObservedPod, Reconciliation};
use flexor_model::{Reason, UnixTime};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::Signal;
use tokio::sync::mpsc;

use super::statuses::{Changed, Statuses};
use super::{Cluster, JobKey, PodRecord, State, now};
use crate::proc::PodProcess;
use crate::readiness::readable;

/// A controller that has not come to rest after so many turns waits for the next change.
const MOST_PASSES: usize = 100;
/// How often a parent is looked at whose end cannot be heard of.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// When to try again what the system refused.
pub(super) const TRY_AGAIN: Duration = Duration::from_secs(1);
/// After its grace a pod that is still there is killed.
const AFTER_GRACE: Duration = Duration::from_secs(5);

/// A pod and its parent.
pub(super) type Started = (String, (i32, u64));

/// What is left to do after a look at everything.
#[derive(Debug, Default)]
pub(super) struct Decided {
    /// The pods that have been started, of whose ends is to be heard.
    pub(super) started: Vec<Started>,
    requeue_at: Option<UnixTime>,
}

impl Decided {
    /// Everything is to be looked at again then, if nothing changes before.
    pub(super) fn look_again(&mut self, at: UnixTime) {
        self.requeue_at = Some(self.requeue_at.map_or(at, |known| known.min(at)));
    }
}

impl Cluster {
    /// Runs the cluster until this is dropped.
    ///
    /// # Errors
    ///
    /// The system does not let us hear of changes.
    pub async fn run(&self) -> io::Result<()> {
        self.run_until_acted(usize::MAX).await
    }

    /// Runs the cluster until it has done so many things, and leaves the next undone: as if it were killed there, for
    /// tests of those that take over.
    ///
    /// # Errors
    ///
    /// The system does not let us hear of changes.
    pub async fn run_until_acted(&self, mut acts_left: usize) -> io::Result<()> {
        let mut statuses = Statuses::watch(&self.0.options.state_dir.status())?;
        let (ended, mut ends) = mpsc::unbounded_channel();
        self.look_at(&Changed::All);
        let adopted: Vec<Started> =
            self.lock().pods.values().filter_map(|pod| Some((pod.meta.uid.clone(), pod.supervisor?))).collect();
        for started in adopted {
            await_end(started, ended.clone());
        }
        loop {
            // Others have their turn too: whoever asks, and whoever interrupts.
            tokio::task::yield_now().await;
            let decided = self.decide(&mut acts_left);
            for started in decided.started {
                await_end(started, ended.clone());
            }
            if acts_left == 0 {
                return Ok(());
            }
            let timer = async {
                match decided.requeue_at {
                    Some(at) => tokio::time::sleep(at.saturating_sub(now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = statuses.changed() => self.look_at(&changed?),
                Some(ended) = ends.recv() => {
                    let others = std::iter::from_fn(|| ends.try_recv().ok());
                    let all: Vec<Started> = std::iter::once(ended).chain(others).collect();
                    self.supervisors_ended(&all);
                }
                () = self.0.notified.notified() => {}
                () = timer => {}
            }
        }
    }

    /// Has the controller decide about every job until it comes to rest.
    fn decide(&self, acts_left: &mut usize) -> Decided {
        let mut decided = Decided::default();
        let keys: Vec<JobKey> = self.lock().jobs.keys().cloned().collect();
        for key in &keys {
            if let Err(error) = self.let_controller_act(key, &mut decided, acts_left) {
                self.lock().tell_of_trouble(key, &error);
                decided.look_again(now() + TRY_AGAIN);
            }
        }
        self.start_what_may_run(&mut decided, acts_left);
        for key in &keys {
            self.feed(key);
            self.lock().take_note(key);
        }
        if let Some(due) = self.kill_the_overdue() {
            decided.look_again(due);
        }
        decided
    }

    /// Does what the controller says about a job, until it says nothing more.
    fn let_controller_act(&self, key: &JobKey, decided: &mut Decided, acts_left: &mut usize) -> io::Result<()> {
        for _ in 0..MOST_PASSES {
            let Some(turn) = self.lock().turn(key) else { break };
            if let Some(at) = turn.requeue_at {
                decided.look_again(at);
            }
            if turn.actions.is_empty() {
                break;
            }
            let done = turn.actions.into_iter().try_for_each(|action| {
                if *acts_left == 0 {
                    return Ok(());
                }
                *acts_left -= 1;
                self.carry_out(key, action)
            });
            self.publish();
            done?;
            if *acts_left == 0 {
                break;
            }
        }
        Ok(())
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
            match self.0.options.state_dir.pod(&uid).status() {
                Ok(Some(status)) => {
                    if pod.supervisor.is_some() || crate::proc::is_alive(status.supervisor) {
                        pod.supervisor = Some(status.supervisor);
                    }
                    let (job, name) = (pod.meta.job.clone(), pod.meta.desired.name.clone());
                    let cut = status.logs_cut_since(pod.status.as_ref());
                    pod.status = Some(status);
                    for cause in cut {
                        state.tell(&job, Some(name.clone()), cause);
                    }
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(pod = pod.meta.desired.name, %error, "its status cannot be read"),
            }
        }
        drop(state);
        self.publish();
    }

    /// Parents have ended: their pods are gone if they were to go, else they have ended or were lost.
    fn supervisors_ended(&self, ended: &[Started]) {
        self.look_at(&Changed::These(ended.iter().map(|(uid, _)| uid.clone()).collect()));
        let mut killed = Vec::new();
        for (uid, supervisor) in ended {
            let mut state = self.lock();
            let Some(pod) =
                state.pods.get_mut(uid).filter(|pod| pod.supervisor.is_some_and(|(pid, _)| pid == supervisor.0))
            else {
                continue;
            };
            pod.supervisor = None;
            // Who has said how its pod ended had ended everything in it before.
            if !pod.status.as_ref().is_some_and(|status| status.phase.is_over()) {
                pod.lost_at = Some(now());
                killed.push(supervisor.0.unsigned_abs());
            }
        }
        if !killed.is_empty() {
            kill_orphans_of(&killed);
        }
        for (uid, (pid, _)) in ended {
            // Where it is a child of ours it has to be waited for; until then nobody else has its number.
            let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
            let mut state = self.lock();
            if state.pods.get(uid).is_some_and(|pod| pod.is_deleting() && pod.supervisor.is_none()) {
                state.forget_pod(&self.0.options.state_dir, uid);
            }
        }
        self.publish();
    }

    /// Kills the parents of pods that should be gone by now. When the next will be due.
    fn kill_the_overdue(&self) -> Option<UnixTime> {
        let state = self.lock();
        let mut next: Option<UnixTime> = None;
        for pod in state.pods.values() {
            let (Some(since), Some(_)) = (pod.meta.deleting_since, pod.supervisor) else { continue };
            let due = since + pod.meta.grace + AFTER_GRACE;
            if due <= now() {
                tracing::warn!(pod = pod.meta.desired.name, "did not end in time and is killed");
                pod.signal_supervisor(Signal::KILL);
            } else {
                next = Some(next.map_or(due, |known| known.min(due)));
            }
        }
        next
    }
}

/// Hears of the end of a parent, child of ours or not.
fn await_end(started: Started, ended: mpsc::UnboundedSender<Started>) {
    let supervisor = started.1;
    let descriptor = match PodProcess::open(supervisor.0) {
        Ok(process) if crate::proc::is_alive(supervisor) => readable(process.into_descriptor()).ok(),
        Ok(_) | Err(Errno::SRCH) => {
            let _ = ended.send(started);
            return;
        }
        Err(_) => None,
    };
    tokio::spawn(async move {
        match descriptor {
            Some(descriptor) => _ = descriptor.readable().await,
            // There are no more descriptors: it is looked at instead.
            None => {
                while crate::proc::is_alive(supervisor) {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
        }
        let _ = ended.send(started);
    });
}

impl State {
    /// What was decided about a job cannot be done; people are told once of each reason.
    fn tell_of_trouble(&mut self, key: &JobKey, error: &io::Error) {
        let Some(record) = self.jobs.get_mut(key) else { return };
        let told = error.to_string();
        if record.trouble.as_ref() != Some(&told) {
            record.trouble = Some(told.clone());
            let detail = format!("{told}; what was decided is tried again every second");
            self.tell(key, None, Cause::new(Reason::CreateRefused, detail));
        }
    }

    /// What the controller says about a job.
    fn turn(&self, key: &JobKey) -> Option<Reconciliation> {
        let record = self.jobs.get(key)?;
        let pods: Vec<ObservedPod> =
            self.pods.values().filter(|pod| pod.meta.job == *key).map(PodRecord::seen).collect();
        let plans: Vec<ObservedPlan> = record
            .plans
            .iter()
            .map(|plan| ObservedPlan {
                plan: plan.plan.clone(),
                created_at: plan.created_at,
                status: plan.status.clone(),
            })
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
            released: &record.released,
            closed: record.closed.as_ref(),
            // What this cluster creates is there at once.
            executor: &ExecutorState::default(),
        };
        Some(controller::reconcile(&observed, now()))
    }
}
