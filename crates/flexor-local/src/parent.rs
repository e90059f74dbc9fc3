//! The parent of one pod: runs its containers in order, writes down what becomes of them, and ends them all.
//!
//! It is a process of its own (`flexor pod`), so that a pod outlives whoever started it. It decides nothing but what a
//! kubelet would: init containers one after the other, sidecars beside them, then all containers; those that end are
//! started again where the pod says so. SIGTERM ends the pod: containers first, sidecars last, all within its grace.

mod containers;
mod last_words;
mod memory;
mod wishes;

use std::io;
use std::os::fd::OwnedFd;

use flexor_agent::processes::{Processes, Shim};
use jiff::Timestamp;
use tokio::time::{Duration, Instant};

use self::containers::Containers;
use self::wishes::{Wish, Wishes};
use crate::pods::folder::PodFolder;
use crate::pods::plan::{PodPlan, RestartPolicy};
use crate::pods::status::{PodPhase, PodStatus};

/// How often memory is looked at where a container's is limited.
const LOOK_AT_MEMORY: Duration = Duration::from_millis(100);
/// The first wait before a container is started again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// How a parent is started.
pub struct ParentOptions {
    /// The pod.
    pub folder: PodFolder,
    /// How programs are started.
    pub shim: Shim,
    /// Listening sockets for its containers, in the order in which they want them.
    pub sockets: Vec<OwnedFd>,
    /// A pipe: when its other end is closed, whoever wanted the pod is gone, and the pod ends too. Without one the pod
    /// outlives everybody.
    pub owner: Option<OwnedFd>,
}

/// Runs a pod to its end.
///
/// # Errors
///
/// It cannot be read, or nothing can be written down.
pub async fn run(options: ParentOptions) -> io::Result<()> {
    let ParentOptions { folder, shim, sockets, owner } = options;
    let plan = folder.plan()?;
    let processes = Processes::new(shim)?;
    let mut wishes = Wishes::hear(owner)?;
    let mut parent = Parent { containers: Containers::new(&plan, &folder, processes, sockets), plan, folder };
    parent.write(PodPhase::Pending, None)?;
    let lived = tokio::select! {
        phase = parent.live() => Ok(phase?),
        wish = wishes.next() => Err(wish),
    };
    let grace = match lived {
        Ok(_) | Err(Wish::End) => parent.plan.grace,
        Err(Wish::EndAtOnce) => Duration::ZERO,
    };
    tokio::select! {
        () = parent.containers.end_in_order(grace) => {}
        () = wishes.hurry(lived.is_err()) => {}
    }
    // Whatever else is left: all of those that were not to be waited for, and daemons that nobody can be blamed for.
    parent.containers.kill_all().await;
    match lived {
        Ok(phase) => parent.write(phase, None),
        Err(wish) => parent.write(PodPhase::Failed, Some(wish)),
    }
}

struct Parent {
    plan: PodPlan,
    folder: PodFolder,
    containers: Containers,
}

impl Parent {
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
        let restart_at = self.containers.next_restart();
        let look_at = self.containers.limits_memory().then(|| Instant::now() + LOOK_AT_MEMORY);
        let until = [restart_at, look_at].into_iter().flatten().min();
        let timer = async {
            match until {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let exit = tokio::select! {
            exit = self.containers.next_exit() => Some(exit),
            () = timer => None,
        };
        let changed = match exit {
            Some(exit) => {
                self.containers.settle(exit).await;
                true
            }
            None => {
                self.containers.look_at_memory();
                self.containers.start_what_is_due()
            }
        };
        if changed { self.write(phase, None) } else { Ok(()) }
    }

    fn write(&self, phase: PodPhase, because: Option<Wish>) -> io::Result<()> {
        let status = PodStatus {
            uid: self.plan.uid.clone(),
            parent: crate::proc::own(),
            phase,
            reason: because.map(|wish| wish.reason().to_owned()),
            message: because.map(|wish| wish.to_string()),
            containers: self.containers.statuses(),
        };
        self.folder.set_status(&status)
    }
}

/// How long to wait before the next start of a container that was started again so often.
fn pause(restarts: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(restarts)).min(LONGEST_PAUSE)
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
