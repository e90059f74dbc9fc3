//! The supervisor of one pod: runs its containers in order, writes their status, and ends them all.
//!
//! It is a process of its own (`flexor pod`), so that a pod outlives the cluster process that started it. It decides what a
//! kubelet would: init containers run one after the other, sidecars beside them, then all containers; containers restart
//! where the pod says so. SIGTERM ends the pod: containers first, sidecars last, all within the grace period.

mod container_set;
mod failure_message;
mod launched_program;
mod memory;
mod mounts;
mod stop_requests;

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use flexor_agent::processes::{Processes, Shim};
use jiff::Timestamp;
use tokio::time::{Duration, Instant};

use self::container_set::ContainerSet;
use self::stop_requests::{StopRequest, StopRequests};
use crate::limits::MemoryLimits;
use crate::pods::folder::PodFolder;
use crate::pods::plan::{PodPlan, RestartPolicy};
use crate::pods::status::{PodPhase, PodStatus};

/// How long after a full disk a status is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

pub struct SupervisorOptions {
    pub folder: PodFolder,
    /// The program that starts containers.
    pub shim: Shim,
    /// Listening sockets for its containers, in the order of the containers.
    pub sockets: Vec<OwnedFd>,
    /// A pipe from the cluster process. The pod ends when its other end is closed. Without one the pod outlives the
    /// cluster process.
    pub owner: Option<OwnedFd>,
    pub limits: MemoryLimits,
}

/// Runs a pod to its end.
///
/// # Errors
///
/// The plan cannot be read, or the status cannot be written for another reason than a full disk.
pub async fn run(options: SupervisorOptions) -> io::Result<()> {
    let SupervisorOptions { folder, shim, sockets, owner, limits } = options;
    let plan = folder.plan()?;
    let processes = Processes::new(shim)?;
    let mut stop_requests = StopRequests::listen(owner)?;
    let containers = ContainerSet::new(&plan, &folder, processes, sockets, limits);
    let mut supervisor = Supervisor { containers, plan, folder, is_behind: false };
    supervisor.write(PodPhase::Pending, None)?;
    let ended = tokio::select! {
        phase = supervisor.run_containers() => match phase {
            Ok(phase) => Ok(phase),
            Err(error) => {
                supervisor.containers.kill_all().await;
                return Err(error);
            }
        },
        request = stop_requests.next() => Err(request),
    };
    let grace = match ended {
        Ok(_) | Err(StopRequest::End) => supervisor.plan.grace,
        Err(StopRequest::EndAtOnce) => Duration::ZERO,
    };
    tokio::select! {
        () = supervisor.containers.end_in_order(grace) => {}
        () = stop_requests.hurry(ended.is_err()) => {}
    }
    // Kills what is left: containers beyond the grace period, and daemons that left their container.
    supervisor.containers.kill_all().await;
    let (phase, cause) = match ended {
        Ok(phase) => (phase, None),
        Err(request) => (PodPhase::Failed, Some(request)),
    };
    supervisor.write(phase, cause)?;
    // No other process knows how the pod ended. A second stop request ends the attempts.
    while supervisor.is_behind {
        tokio::select! {
            () = tokio::time::sleep(WRITE_AGAIN) => supervisor.write(phase, cause)?,
            _ = stop_requests.next() => break,
        }
    }
    Ok(())
}

struct Supervisor {
    plan: PodPlan,
    folder: PodFolder,
    containers: ContainerSet,
    /// The disk was full for the last status.
    is_behind: bool,
}

impl Supervisor {
    /// Runs everything until all containers have ended for good. Returns how the pod ended.
    async fn run_containers(&mut self) -> io::Result<PodPhase> {
        for init in 0..self.plan.init.len() {
            self.containers.start(init);
            self.write(PodPhase::Pending, None)?;
            if self.plan.init[init].sidecar {
                continue;
            }
            while !self.containers.has_ended(init) {
                self.wait(PodPhase::Pending).await?;
            }
            if !self.containers.has_succeeded(init) {
                return Ok(PodPhase::Failed);
            }
        }
        let mains = self.plan.init.len()..self.plan.init.len() + self.plan.containers.len();
        for container in mains.clone() {
            self.containers.start(container);
        }
        if !mains.clone().all(|container| self.containers.has_ended(container)) {
            self.write(PodPhase::Running, None)?;
        }
        while !mains.clone().all(|container| self.containers.has_ended(container)) {
            self.wait(PodPhase::Running).await?;
        }
        let succeeded = mains.clone().all(|container| self.containers.has_succeeded(container));
        Ok(if succeeded { PodPhase::Succeeded } else { PodPhase::Failed })
    }

    /// Waits until something has changed, and writes the status.
    async fn wait(&mut self, phase: PodPhase) -> io::Result<()> {
        let poll_at = self.containers.poll_interval().map(|every| Instant::now() + every);
        let write_at = self.is_behind.then(|| Instant::now() + WRITE_AGAIN);
        let until = [self.containers.next_restart(), poll_at, write_at].into_iter().flatten().min();
        let timer = async {
            match until {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = self.containers.next_event() => Some(event),
            () = timer => None,
        };
        let changed = match event {
            Some(event) => {
                self.containers.handle(event).await;
                true
            }
            None => {
                self.containers.check_memory();
                self.containers.restart_due()
            }
        };
        if changed || self.is_behind { self.write(phase, None) } else { Ok(()) }
    }

    /// Writes the status. On a full disk the pod goes on, and the status is written later.
    fn write(&mut self, phase: PodPhase, cause: Option<StopRequest>) -> io::Result<()> {
        let status = PodStatus {
            uid: self.plan.uid.clone(),
            supervisor: crate::proc::own(),
            phase,
            reason: cause.map(|request| request.reason().to_owned()),
            message: cause.map(|request| request.to_string()),
            containers: self.containers.statuses(),
        };
        match self.folder.set_status(&status) {
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                self.is_behind = true;
                Ok(())
            }
            written => {
                self.is_behind = false;
                written
            }
        }
    }
}

/// Whether a container restarts after it has ended.
fn restarts(policy: RestartPolicy, sidecar: bool, succeeded: bool) -> bool {
    sidecar
        || match policy {
            RestartPolicy::Never => false,
            RestartPolicy::OnFailure => !succeeded,
            RestartPolicy::Always => true,
        }
}

fn now() -> Timestamp {
    Timestamp::now()
}
