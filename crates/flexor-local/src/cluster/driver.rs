//! The loop of the cluster: waits for a change, lets the controller act on every job, and starts pods.
//!
//! Changes are status files that pod supervisors write, supervisors that end, API requests, master proposals, and the
//! times that the controller asked for. Nothing but the disk is polled. What a reconciliation does is `flexor-control`'s.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZero;
use std::time::Duration;

use flexor_agent::processes::kill_orphans_of;
use flexor_control::{JobDriver, Pacing};
use flexor_model::UnixTime;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::Signal;
use tokio::sync::mpsc;

use super::status_watch::{ChangedPods, StatusWatch};
use super::{Cluster, JobKey, now};
use crate::proc::PodProcess;
use crate::readiness::readable;

/// A disk takes every status write at once, and pods are created one after the other. Only the events of large jobs are
/// merged.
const PACING: Pacing = Pacing {
    status_writes_per_second: None,
    largest_batch: NonZero::<usize>::MAX,
    merge_losses_within: Duration::ZERO,
    ..Pacing::CLUSTER
};
/// How often a supervisor is checked for its end when there are no more descriptors to wait on.
const POLL_EVERY: Duration = Duration::from_millis(200);
/// A pod that the system refused to start is tried again after this.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The loop runs at least this often; timers cannot wait for centuries.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 3600);
/// A pod that still runs this long after its grace period is killed.
const KILL_AFTER_GRACE: Duration = Duration::from_secs(5);

/// A pod's uid and its supervisor.
pub(super) type Started = (String, (i32, u64));

/// What one round of the loop leaves to do.
#[derive(Debug, Default)]
pub(super) struct RoundOutcome {
    /// The pods that were started, whose supervisors are to be watched.
    pub(super) started: Vec<Started>,
    requeue_at: Option<UnixTime>,
}

impl RoundOutcome {
    /// The loop runs again at this time, if nothing changes before.
    pub(super) fn requeue(&mut self, at: UnixTime) {
        self.requeue_at = Some(self.requeue_at.map_or(at, |known| known.min(at)));
    }
}

impl Cluster {
    /// Runs the cluster until the future is dropped.
    ///
    /// # Errors
    ///
    /// The system does not let us watch the status files.
    pub async fn run(&self) -> io::Result<()> {
        self.run_until_acted(usize::MAX).await
    }

    /// Runs the cluster until it has executed so many actions, and leaves the next one undone, as if it were killed
    /// there. Tests of a takeover use it.
    ///
    /// # Errors
    ///
    /// The system does not let us watch the status files.
    pub async fn run_until_acted(&self, mut actions_left: usize) -> io::Result<()> {
        let mut statuses = StatusWatch::over(&self.0.options.state_dir.status())?;
        let (ended, mut ends) = mpsc::unbounded_channel();
        self.read_statuses(&ChangedPods::All);
        let adopted: Vec<Started> =
            self.lock().pods.values().filter_map(|pod| Some((pod.meta.uid.clone(), pod.supervisor?))).collect();
        for started in adopted {
            await_end(started, ended.clone());
        }
        let mut drivers = BTreeMap::new();
        let disk = self.watch_disk();
        tokio::pin!(disk);
        loop {
            // API requests and interrupts get their share of the thread.
            tokio::task::yield_now().await;
            let outcome = self.decide(&mut drivers, &mut actions_left).await;
            for started in outcome.started {
                await_end(started, ended.clone());
            }
            if actions_left == 0 {
                return Ok(());
            }
            let timer = async {
                match outcome.requeue_at {
                    Some(at) => tokio::time::sleep(at.saturating_sub(now()).min(LONGEST_SLEEP)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = statuses.changed() => self.read_statuses(&changed?),
                Some(ended) = ends.recv() => {
                    let others = std::iter::from_fn(|| ends.try_recv().ok());
                    let all: Vec<Started> = std::iter::once(ended).chain(others).collect();
                    self.supervisors_ended(&all);
                }
                () = self.0.notified.notified() => {}
                () = timer => {}
                () = &mut disk => {}
            }
        }
    }

    /// Drives every job until the controller has nothing left to do, then starts the pods that are admitted.
    async fn decide(&self, drivers: &mut BTreeMap<JobKey, JobDriver>, actions_left: &mut usize) -> RoundOutcome {
        let mut outcome = RoundOutcome::default();
        let keys: Vec<JobKey> = self.lock().jobs.keys().cloned().collect();
        drivers.retain(|key, _| keys.contains(key));
        self.plan(&mut outcome);
        for key in &keys {
            let driver = drivers.entry(key.clone()).or_insert_with(|| JobDriver::new(PACING));
            if let Some(at) = driver.run(self, key, actions_left).await {
                outcome.requeue(at);
            }
        }
        self.start_admitted_pods(&mut outcome, actions_left);
        for key in &keys {
            self.feed_master(key);
        }
        if let Some(due) = self.kill_overdue_pods() {
            outcome.requeue(due);
        }
        outcome
    }

    /// Reads the statuses that supervisors have written.
    fn read_statuses(&self, changed: &ChangedPods) {
        let mut state = self.lock();
        let uids: Vec<String> = match changed {
            ChangedPods::All => state.pods.keys().cloned().collect(),
            ChangedPods::Some(uids) => uids.clone(),
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
                        state.record_event(&job, Some(name.clone()), cause);
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(pod = pod.meta.desired.name, %error, "the status of a pod cannot be read");
                }
            }
        }
        drop(state);
        self.publish();
    }

    /// Handles supervisors that have ended. A pod that is being deleted is gone; another one has ended or was lost.
    fn supervisors_ended(&self, ended: &[Started]) {
        self.read_statuses(&ChangedPods::Some(ended.iter().map(|(uid, _)| uid.clone()).collect()));
        let mut killed = Vec::new();
        for (uid, supervisor) in ended {
            let mut state = self.lock();
            let Some(pod) =
                state.pods.get_mut(uid).filter(|pod| pod.supervisor.is_some_and(|(pid, _)| pid == supervisor.0))
            else {
                continue;
            };
            pod.supervisor = None;
            // A supervisor ends all processes of its pod before it writes how the pod ended.
            if !pod.status.as_ref().is_some_and(|status| status.phase.is_over()) {
                pod.lost_at = Some(now());
                killed.push(supervisor.0.unsigned_abs());
            }
        }
        if !killed.is_empty() {
            kill_orphans_of(&killed);
        }
        for (uid, (pid, _)) in ended {
            // A child of ours has to be waited for; until then no other process gets its id.
            let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
            let mut state = self.lock();
            if state.pods.get(uid).is_some_and(|pod| pod.is_deleting() && pod.supervisor.is_none()) {
                state.forget_pod(&self.0.options.state_dir, uid);
            }
        }
        self.publish();
    }

    /// Kills the supervisors of pods that should have ended by now. Returns when the next one is due.
    fn kill_overdue_pods(&self) -> Option<UnixTime> {
        let state = self.lock();
        let mut next: Option<UnixTime> = None;
        for pod in state.pods.values() {
            let (Some(since), Some(_)) = (pod.meta.deleting_since, pod.supervisor) else { continue };
            let due = since + pod.meta.grace + KILL_AFTER_GRACE;
            if due <= now() {
                tracing::warn!(pod = pod.meta.desired.name, "a pod did not end within its grace period and is killed");
                pod.signal_supervisor(Signal::KILL);
            } else {
                next = Some(next.map_or(due, |known| known.min(due)));
            }
        }
        next
    }
}

/// Sends `ended` the pod when its supervisor ends, whether or not that is a child of this process.
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
            // No descriptor is left.
            None => {
                while crate::proc::is_alive(supervisor) {
                    tokio::time::sleep(POLL_EVERY).await;
                }
            }
        }
        let _ = ended.send(started);
    });
}
