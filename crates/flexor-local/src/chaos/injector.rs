//! The hand that does the acts of a script to a cluster, each at its time, and undoes what does not pass by itself.
//!
//! Whom an act is about is looked up when its time has come; who is not there then was missed, which is told as well, and
//! so is a parameter server that cannot be spared.
//! Whatever is stopped or full goes on and is emptied when the hand is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use flexor_engine::Cause;
use flexor_model::Reason;
use tokio::time::Instant;

use super::fault::{Fault, ScheduledFault, SlotRef};
use super::master_faults::{Harm, MasterFaults};
use super::process::Stopped;
use super::script::Script;
use super::sparing::{Gone, can_spare};
use crate::cluster::{Cluster, JobKey, PodRecord};
use crate::pods::status::ContainerState;
use crate::proc::PodProcess;

/// Does the acts of a script.
pub struct Injector {
    cluster: Cluster,
    begun: Instant,
    faults: VecDeque<ScheduledFault>,
    /// What is to be undone, and when.
    lasting: Vec<(Instant, Lasting)>,
    /// What holds for the master of each job.
    harm: BTreeMap<JobKey, Harm>,
    /// Servers are asked for only where they can be spared.
    spares_servers: bool,
    /// Who was killed or deleted, of each job.
    gone: BTreeMap<JobKey, Vec<Gone>>,
    tally: Arc<Tally>,
}

/// How many acts have had their time so far, for whoever looks on.
#[derive(Debug, Default)]
pub struct Tally {
    done: AtomicUsize,
    missed: AtomicUsize,
}

impl Tally {
    /// How many were done.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// How many could not be done when their time had come.
    pub fn missed(&self) -> usize {
        self.missed.load(Ordering::Relaxed)
    }
}

/// What does not pass by itself.
enum Lasting {
    /// Goes on when dropped.
    Stopped {
        /// Whose.
        slot: SlotRef,
        _processes: Stopped,
    },
    FullDisk(JobKey),
    SlowDisk(JobKey, u64),
    FailingWrites,
}

/// What became of an act: whom it hit and how, or why nobody.
type Done = Result<String, String>;

impl Injector {
    /// A hand whose time begins here.
    #[must_use]
    pub fn new(cluster: Cluster, script: &Script) -> Self {
        let faults = script.faults().iter().cloned().collect();
        Self {
            cluster,
            begun: Instant::now(),
            faults,
            lasting: Vec::new(),
            harm: BTreeMap::new(),
            spares_servers: script.spares_servers(),
            gone: BTreeMap::new(),
            tally: Arc::default(),
        }
    }

    /// What is counted of its acts, also when it is gone.
    #[must_use]
    pub fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    /// Does all acts. Giving up this wait undoes what is to be undone.
    pub async fn run(mut self) {
        loop {
            let fault = self.faults.front().map(|fault| self.begun + fault.at());
            let over = self.lasting.iter().map(|(until, _)| *until).min();
            let Some(next) = [fault, over].into_iter().flatten().min() else { return };
            tokio::time::sleep_until(next).await;
            self.undo_what_is_over(next);
            while let Some(fault) = self.faults.pop_front_if(|fault| self.begun + fault.at() <= next) {
                self.fault(&fault);
            }
        }
    }

    fn fault(&mut self, fault: &ScheduledFault) {
        let fault = &fault.fault;
        let (pod, done) = match fault {
            Fault::Kill(slot)
            | Fault::KillSupervisor(slot)
            | Fault::KillSidecar(slot)
            | Fault::Delete(slot)
            | Fault::Stop { slot, .. } => match self.cluster.pod_in(slot) {
                Some(pod) => {
                    let done = self.ask_for(slot).and_then(|()| self.act_on(&pod, fault));
                    if done.is_ok() && !matches!(fault, Fault::Stop { .. }) {
                        let gone = Gone { server: pod.meta.desired.name.clone(), at_ms: unix_ms() };
                        self.gone.entry(slot.job.clone()).or_default().push(gone);
                    }
                    (Some(pod.meta.desired.name.clone()), done)
                }
                None => (None, Err("there is no such pod at the moment".to_owned())),
            },
            Fault::FillDisk { job, .. } | Fault::SlowDisk { job, .. } | Fault::JumpClock { job, .. } => {
                (None, self.harm(job, fault))
            }
            Fault::FailWrites { .. } => {
                let begun = self.cluster.state_dir().write_faults().begin();
                self.until_over(fault, Lasting::FailingWrites);
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

    /// Whether whoever has a place may be harmed now.
    fn ask_for(&self, slot: &SlotRef) -> Result<(), String> {
        if !self.spares_servers || !self.cluster.is_replicated(slot) {
            return Ok(());
        }
        let is_of_servers = |other: &SlotRef| other.job == slot.job && other.role == slot.role;
        let is_stopped =
            |(_, lasting): &(Instant, Lasting)| matches!(lasting, Lasting::Stopped { slot, .. } if is_of_servers(slot));
        if self.lasting.iter().any(is_stopped) {
            return Err("a server is stopped at the moment".to_owned());
        }
        let gone = self.gone.get(&slot.job).map(Vec::as_slice).unwrap_or_default();
        can_spare(self.cluster.servers_of(&slot.job).as_ref(), gone)
    }

    /// Does something to a pod.
    fn act_on(&mut self, pod: &PodRecord, fault: &Fault) -> Done {
        match fault {
            Fault::Kill(_) => kill(program_of(pod, &pod.meta.main)?),
            Fault::KillSidecar(_) => kill(program_of(pod, sidecar_of(pod)?)?),
            Fault::KillSupervisor(_) => {
                kill(pod.supervisor.and_then(PodProcess::supervisor).ok_or("its parent has ended")?)
            }
            Fault::Delete(slot) => self.delete(pod, slot),
            Fault::Stop { slot, .. } => {
                let stopped = Stopped::stop(program_of(pod, &pod.meta.main)?).ok_or("its program has just ended")?;
                let how = format!("{} processes", stopped.count());
                self.until_over(fault, Lasting::Stopped { slot: slot.clone(), _processes: stopped });
                Ok(how)
            }
            Fault::FillDisk { .. } | Fault::SlowDisk { .. } | Fault::JumpClock { .. } | Fault::FailWrites { .. } => {
                Err("it is not about a pod".to_owned())
            }
        }
    }

    fn delete(&self, pod: &PodRecord, slot: &SlotRef) -> Done {
        let deleted = self.cluster.delete_pod_named(&slot.job.namespace, &pod.meta.desired.name);
        deleted.map(|_| "it is told to end".to_owned()).map_err(|error| error.to_string())
    }

    /// Does something to a master's disk or clock.
    fn harm(&mut self, job: &JobKey, fault: &Fault) -> Done {
        let harm = self.harm.entry(job.clone()).or_default();
        match fault {
            Fault::FillDisk { .. } => {
                harm.fill();
                self.until_over(fault, Lasting::FullDisk(job.clone()));
            }
            Fault::SlowDisk { by_ms, .. } => {
                harm.slow(*by_ms);
                self.until_over(fault, Lasting::SlowDisk(job.clone(), *by_ms));
            }
            Fault::JumpClock { by_ms, .. } => harm.jump(*by_ms),
            Fault::Kill(_)
            | Fault::KillSupervisor(_)
            | Fault::KillSidecar(_)
            | Fault::Stop { .. }
            | Fault::Delete(_)
            | Fault::FailWrites { .. } => return Err("it is not about a master".to_owned()),
        }
        self.tell_master(job).map(|()| "its master is told".to_owned())
    }

    fn tell_master(&self, job: &JobKey) -> Result<(), String> {
        let faults = self.harm.get(job).map_or_else(MasterFaults::default, Harm::faults);
        let file = self.cluster.faults_file(job).ok_or("there is no such job at the moment")?;
        faults.tell(&file).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn until_over(&mut self, fault: &Fault, lasting: Lasting) {
        let until = Instant::now() + fault.lasts().unwrap_or_default();
        self.lasting.push((until, lasting));
    }

    fn undo_what_is_over(&mut self, now: Instant) {
        for (_, lasting) in self.lasting.extract_if(.., |(until, _)| *until <= now).collect::<Vec<_>>() {
            self.undo(lasting);
        }
    }

    fn undo(&mut self, lasting: Lasting) {
        let job = match lasting {
            Lasting::Stopped { .. } => return,
            Lasting::FailingWrites => {
                let is_last = !self.lasting.iter().any(|(_, other)| matches!(other, Lasting::FailingWrites));
                if is_last {
                    self.cluster.end_failing_writes();
                }
                return;
            }
            Lasting::FullDisk(job) => {
                self.harm.entry(job.clone()).or_default().make_room();
                job
            }
            Lasting::SlowDisk(job, by_ms) => {
                self.harm.entry(job.clone()).or_default().speed_up(by_ms);
                job
            }
        };
        // Where the job is gone, so is its master.
        if let Err(error) = self.tell_master(&job) {
            tracing::debug!(%job, error, "its master is not told that its disk is well again");
        }
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        for (_, lasting) in std::mem::take(&mut self.lasting) {
            self.undo(lasting);
        }
    }
}

/// The program of a pod's container, while it runs.
fn program_of(pod: &PodRecord, container: &str) -> Result<PodProcess, String> {
    pod.program(container).ok_or_else(|| format!("its container {container} does not run"))
}

/// The container of a pod that stands beside the others.
fn sidecar_of(pod: &PodRecord) -> Result<&str, String> {
    let containers = pod.status.iter().flat_map(|status| &status.containers);
    let mut beside = containers.filter(|known| known.init && matches!(known.state, ContainerState::Running { .. }));
    beside.next().map(|known| known.name.as_str()).ok_or_else(|| "it has no sidecar that runs".to_owned())
}

fn kill(process: PodProcess) -> Done {
    if process.kill() { Ok(format!("process {}", process.pid)) } else { Err("it has just ended".to_owned()) }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
