//! Injects the faults of a script into a cluster, each at its time, and undoes those that do not pass by themselves.
//!
//! The pod of a slot is looked up when the fault is due. A fault without a pod is missed, and so is one that would take a
//! parameter server without a copy; both are recorded as events. Dropping the injector undoes all active faults.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use flexor_engine::Cause;
use flexor_model::Reason;
use tokio::time::Instant;

use super::fault::{Fault, ScheduledFault, SlotRef};
use super::master_faults::{ActiveMasterFaults, MasterFaults};
use super::process::StoppedProcesses;
use super::script::Script;
use super::server_redundancy::{LostServer, check_redundancy};
use crate::cluster::{Cluster, JobKey, PodRecord};
use crate::pods::status::ContainerState;
use crate::proc::PodProcess;

pub struct Injector {
    cluster: Cluster,
    begun: Instant,
    faults: VecDeque<ScheduledFault>,
    /// Active faults, with when they end.
    active: Vec<(Instant, ActiveFault)>,
    master_faults: BTreeMap<JobKey, ActiveMasterFaults>,
    /// Faults hit parameter servers only while everything is replicated.
    spares_servers: bool,
    /// Pods that faults took away, by job.
    lost: BTreeMap<JobKey, Vec<LostServer>>,
    tally: Arc<FaultTally>,
}

/// Counts of the faults that were due so far.
#[derive(Debug, Default)]
pub struct FaultTally {
    done: AtomicUsize,
    missed: AtomicUsize,
}

impl FaultTally {
    /// Faults that were injected.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Faults that found no target when they were due.
    pub fn missed(&self) -> usize {
        self.missed.load(Ordering::Relaxed)
    }
}

/// A fault that does not pass by itself.
enum ActiveFault {
    /// The processes continue when this is dropped.
    Stopped {
        slot: SlotRef,
        _processes: StoppedProcesses,
    },
    FullDisk(JobKey),
    SlowDisk(JobKey, u64),
    FailingWrites,
}

/// What a fault hit, or why it was missed.
type FaultOutcome = Result<String, String>;

impl Injector {
    /// An injector whose time starts now.
    #[must_use]
    pub fn new(cluster: Cluster, script: &Script) -> Self {
        let faults = script.faults().iter().cloned().collect();
        Self {
            cluster,
            begun: Instant::now(),
            faults,
            active: Vec::new(),
            master_faults: BTreeMap::new(),
            spares_servers: script.spares_servers(),
            lost: BTreeMap::new(),
            tally: Arc::default(),
        }
    }

    /// The counts of its faults, which outlive it.
    #[must_use]
    pub fn tally(&self) -> Arc<FaultTally> {
        self.tally.clone()
    }

    /// Injects all faults. Cancelling the wait undoes the active ones.
    pub async fn run(mut self) {
        loop {
            let fault = self.faults.front().map(|fault| self.begun + fault.at());
            let over = self.active.iter().map(|(until, _)| *until).min();
            let Some(next) = [fault, over].into_iter().flatten().min() else { return };
            tokio::time::sleep_until(next).await;
            self.undo_ended(next);
            while let Some(fault) = self.faults.pop_front_if(|fault| self.begun + fault.at() <= next) {
                self.inject(&fault);
            }
        }
    }

    fn inject(&mut self, fault: &ScheduledFault) {
        let fault = &fault.fault;
        let (pod, done) = match fault {
            Fault::Kill(slot)
            | Fault::KillSupervisor(slot)
            | Fault::KillSidecar(slot)
            | Fault::Delete(slot)
            | Fault::Stop { slot, .. } => match self.cluster.pod_in(slot) {
                Some(pod) => {
                    let done = self.check_target(slot).and_then(|()| self.hit_pod(&pod, fault));
                    if done.is_ok() && !matches!(fault, Fault::Stop { .. }) {
                        let lost = LostServer { server: pod.meta.desired.name.clone(), at_ms: unix_ms() };
                        self.lost.entry(slot.job.clone()).or_default().push(lost);
                    }
                    (Some(pod.meta.desired.name.clone()), done)
                }
                None => (None, Err("there is no such pod at the moment".to_owned())),
            },
            Fault::FillDisk { job, .. } | Fault::SlowDisk { job, .. } | Fault::JumpClock { job, .. } => {
                (None, self.hit_master(job, fault))
            }
            Fault::FailWrites { .. } => {
                let begun = self.cluster.state_dir().write_faults().begin();
                self.activate(fault, ActiveFault::FailingWrites);
                (None, begun.map(|()| "for its pods as well".to_owned()).map_err(|error| error.to_string()))
            }
        };
        let count = if done.is_ok() { &self.tally.done } else { &self.tally.missed };
        count.fetch_add(1, Ordering::Relaxed);
        let detail = match done {
            Ok(how) => format!("{fault}: {how}"),
            Err(why) => format!("{fault}: missed, {why}"),
        };
        self.cluster.record_fault(fault.job(), pod, Cause::new(Reason::FaultInjected, detail));
    }

    /// Checks that the pod of a slot may be hit now.
    fn check_target(&self, slot: &SlotRef) -> Result<(), String> {
        if !self.spares_servers || !self.cluster.is_replicated(slot) {
            return Ok(());
        }
        let is_of_servers = |other: &SlotRef| other.job == slot.job && other.role == slot.role;
        let is_stopped = |(_, active): &(Instant, ActiveFault)| matches!(active, ActiveFault::Stopped { slot, .. } if is_of_servers(slot));
        if self.active.iter().any(is_stopped) {
            return Err("a server is stopped at the moment".to_owned());
        }
        let lost = self.lost.get(&slot.job).map(Vec::as_slice).unwrap_or_default();
        check_redundancy(self.cluster.servers_of(&slot.job).as_ref(), lost)
    }

    fn hit_pod(&mut self, pod: &PodRecord, fault: &Fault) -> FaultOutcome {
        match fault {
            Fault::Kill(_) => kill(program_of(pod, &pod.meta.main)?),
            Fault::KillSidecar(_) => kill(program_of(pod, sidecar_of(pod)?)?),
            Fault::KillSupervisor(_) => {
                kill(pod.supervisor.and_then(PodProcess::supervisor).ok_or("its supervisor has ended")?)
            }
            Fault::Delete(slot) => self.delete(pod, slot),
            Fault::Stop { slot, .. } => {
                let stopped =
                    StoppedProcesses::stop(program_of(pod, &pod.meta.main)?).ok_or("its program has just ended")?;
                let how = format!("{} processes", stopped.count());
                self.activate(fault, ActiveFault::Stopped { slot: slot.clone(), _processes: stopped });
                Ok(how)
            }
            Fault::FillDisk { .. } | Fault::SlowDisk { .. } | Fault::JumpClock { .. } | Fault::FailWrites { .. } => {
                Err("it is not about a pod".to_owned())
            }
        }
    }

    fn delete(&self, pod: &PodRecord, slot: &SlotRef) -> FaultOutcome {
        let deleted = self.cluster.delete_pod_named(&slot.job.namespace, &pod.meta.desired.name);
        deleted.map(|_| "it is told to end".to_owned()).map_err(|error| error.to_string())
    }

    /// Injects a fault into a master's disk or clock.
    fn hit_master(&mut self, job: &JobKey, fault: &Fault) -> FaultOutcome {
        let faults = self.master_faults.entry(job.clone()).or_default();
        match fault {
            Fault::FillDisk { .. } => {
                faults.fill();
                self.activate(fault, ActiveFault::FullDisk(job.clone()));
            }
            Fault::SlowDisk { by_ms, .. } => {
                faults.slow(*by_ms);
                self.activate(fault, ActiveFault::SlowDisk(job.clone(), *by_ms));
            }
            Fault::JumpClock { by_ms, .. } => faults.jump(*by_ms),
            Fault::Kill(_)
            | Fault::KillSupervisor(_)
            | Fault::KillSidecar(_)
            | Fault::Stop { .. }
            | Fault::Delete(_)
            | Fault::FailWrites { .. } => return Err("it is not about a master".to_owned()),
        }
        self.publish_faults(job).map(|()| "its master is told".to_owned())
    }

    fn publish_faults(&self, job: &JobKey) -> Result<(), String> {
        let faults = self.master_faults.get(job).map_or_else(MasterFaults::default, ActiveMasterFaults::faults);
        let file = self.cluster.faults_file(job).ok_or("there is no such job at the moment")?;
        faults.write(&file).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn activate(&mut self, fault: &Fault, active: ActiveFault) {
        let until = Instant::now() + fault.lasts().unwrap_or_default();
        self.active.push((until, active));
    }

    fn undo_ended(&mut self, now: Instant) {
        for (_, active) in self.active.extract_if(.., |(until, _)| *until <= now).collect::<Vec<_>>() {
            self.undo(active);
        }
    }

    fn undo(&mut self, active: ActiveFault) {
        let job = match active {
            ActiveFault::Stopped { .. } => return,
            ActiveFault::FailingWrites => {
                let is_last = !self.active.iter().any(|(_, other)| matches!(other, ActiveFault::FailingWrites));
                if is_last {
                    self.cluster.end_failing_writes();
                }
                return;
            }
            ActiveFault::FullDisk(job) => {
                self.master_faults.entry(job.clone()).or_default().make_room();
                job
            }
            ActiveFault::SlowDisk(job, by_ms) => {
                self.master_faults.entry(job.clone()).or_default().speed_up(by_ms);
                job
            }
        };
        // A job that is gone has no master.
        if let Err(error) = self.publish_faults(&job) {
            tracing::debug!(%job, error, "the end of a disk fault cannot be written to the master's fault file");
        }
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        for (_, active) in std::mem::take(&mut self.active) {
            self.undo(active);
        }
    }
}

/// The program of a pod's container, while it runs.
fn program_of(pod: &PodRecord, container: &str) -> Result<PodProcess, String> {
    pod.program(container).ok_or_else(|| format!("its container {container} does not run"))
}

/// The running sidecar of a pod.
fn sidecar_of(pod: &PodRecord) -> Result<&str, String> {
    let containers = pod.status.iter().flat_map(|status| &status.containers);
    let mut sidecars = containers.filter(|known| known.init && matches!(known.state, ContainerState::Running { .. }));
    sidecars.next().map(|known| known.name.as_str()).ok_or_else(|| "it has no sidecar that runs".to_owned())
}

fn kill(process: PodProcess) -> FaultOutcome {
    if process.kill() { Ok(format!("process {}", process.pid)) } else { Err("it has just ended".to_owned()) }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
