//! The parent of one pod: runs its containers in order, writes down what becomes of them, and ends them all.
//!
//! It is a process of its own (`flexor pod`), so that a pod outlives whoever started it. It decides nothing but what a
//! kubelet would: init containers one after the other, sidecars beside them, then all containers; those that end are
//! started again where the pod says so. SIGTERM ends the pod: containers first, sidecars last, all within its grace.

mod containers;
mod last_words;
mod memory;
mod mounts;
mod stop_requests;

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use flexor_agent::processes::{Processes, Shim};
use jiff::Timestamp;
use tokio::time::{Duration, Instant};

use self::containers::Containers;
use self::stop_requests::{StopRequest, StopRequests};
use crate::limits::MemoryLimits;
use crate::pods::folder::PodFolder;
use crate::pods::plan::{PodPlan, RestartPolicy};
use crate::pods::status::{PodPhase, PodStatus};

/// A status that found no room on the disk is written again after this.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// How a parent is started.
pub struct SupervisorOptions {
    /// The pod.
    pub folder: PodFolder,
    /// How programs are started.
    pub shim: Shim,
    /// Listening sockets for its containers, in the order in which they want them.
    pub sockets: Vec<OwnedFd>,
    /// A pipe: when its other end is closed, whoever wanted the pod is gone, and the pod ends too. Without one the pod
    /// outlives everybody.
    pub owner: Option<OwnedFd>,
    /// How the memory of its containers is limited.
    pub limits: MemoryLimits,
}

/// Runs a pod to its end.
///
/// # Errors
///
/// It cannot be read, or nothing can be written down.
pub async fn run(options: SupervisorOptions) -> io::Result<()> {
    let SupervisorOptions { folder, shim, sockets, owner, limits } = options;
    let plan = folder.plan()?;
    let processes = Processes::new(shim)?;
    let mut stop_requests = StopRequests::hear(owner)?;
    let containers = Containers::new(&plan, &folder, processes, sockets, limits);
    let mut supervisor = Supervisor { containers, plan, folder, is_behind: false };
    supervisor.write(PodPhase::Pending, None)?;
    let lived = tokio::select! {
        phase = supervisor.live() => match phase {
            Ok(phase) => Ok(phase),
            Err(error) => {
                supervisor.containers.kill_all().await;
                return Err(error);
            }
        },
        desired = stop_requests.next() => Err(desired),
    };
    let grace = match lived {
        Ok(_) | Err(StopRequest::End) => supervisor.plan.grace,
        Err(StopRequest::EndAtOnce) => Duration::ZERO,
    };
    tokio::select! {
        () = supervisor.containers.end_in_order(grace) => {}
        () = stop_requests.hurry(lived.is_err()) => {}
    }
    // Whatever else is left: all of those that were not to be waited for, and daemons that nobody can be blamed for.
    supervisor.containers.kill_all().await;
    let (phase, cause) = match lived {
        Ok(phase) => (phase, None),
        Err(desired) => (PodPhase::Failed, Some(desired)),
    };
    supervisor.write(phase, cause)?;
    // Nobody else can tell how it ended. Whoever does not want to know any more says so once more.
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
    containers: Containers,
    /// The last status found no room on the disk.
    is_behind: bool,
}

impl Supervisor {
    /// Runs everything until all containers have ended for good. How the pod ended.
    async fn live(&mut self) -> io::Result<PodPhase> {
        for init in 0..self.plan.init.len() {
            self.containers.start(init);
            self.write(PodPhase::Pending, None)?;
            if self.plan.init[init].sidecar {
                continue;
            }
            while !self.containers.has_ended(init) {
                self.wait(PodPhase::Pending).await?;
            }
            if !self.containers.has_ended_well(init) {
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
        let well = mains.clone().all(|container| self.containers.has_ended_well(container));
        Ok(if well { PodPhase::Succeeded } else { PodPhase::Failed })
    }

    /// Waits until something has changed, and writes it down.
    async fn wait(&mut self, phase: PodPhase) -> io::Result<()> {
        let look_at = self.containers.look_every().map(|every| Instant::now() + every);
        let write_at = self.is_behind.then(|| Instant::now() + WRITE_AGAIN);
        let until = [self.containers.next_restart(), look_at, write_at].into_iter().flatten().min();
        let timer = async {
            match until {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let news = tokio::select! {
            news = self.containers.next_news() => Some(news),
            () = timer => None,
        };
        let changed = match news {
            Some(news) => {
                self.containers.settle(news).await;
                true
            }
            None => {
                self.containers.look_at_memory();
                self.containers.start_what_is_due()
            }
        };
        if changed || self.is_behind { self.write(phase, None) } else { Ok(()) }
    }

    /// Writes down how it stands. On a full disk that is done later, and the pod goes on.
    fn write(&mut self, phase: PodPhase, cause: Option<StopRequest>) -> io::Result<()> {
        let status = PodStatus {
            uid: self.plan.uid.clone(),
            supervisor: crate::proc::own(),
            phase,
            reason: cause.map(|desired| desired.reason().to_owned()),
            message: cause.map(|desired| desired.to_string()),
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

/// Whether a container is started again that ended like this.
fn starts_again(policy: RestartPolicy, sidecar: bool, well: bool) -> bool {
    sidecar
        || match policy {
            RestartPolicy::Never => false,
            RestartPolicy::OnFailure => !well,
            RestartPolicy::Always => true,
        }
}

fn now() -> Timestamp {
    Timestamp::now()
}
