//! The parent of one pod: runs its containers in order, writes down what becomes of them, and ends them all.
//!
//! It is a process of its own (`flexor pod`), so that a pod outlives whoever started it. It decides nothing but what a
//! kubelet would: init containers one after the other, sidecars beside them, then all containers; those that end are
//! started again where the pod says so. SIGTERM ends the pod: containers first, sidecars last, all within its grace.

mod containers;
mod memory;

use std::io;
use std::os::fd::OwnedFd;

use flexor_agent::processes::{Ladder, Processes, Shim};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Duration, Instant};

use self::containers::Containers;
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

/// Why a pod ends before its containers have.
enum Cause {
    /// Somebody deleted it.
    Told,
    /// Its owner is gone.
    OwnerGone,
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
    let mut parent = Parent { containers: Containers::new(&plan, &folder, processes, sockets), plan, folder };
    parent.write(PodPhase::Pending)?;
    let mut term = signal(SignalKind::terminate())?;
    let mut owner = owner.map(pipe::Receiver::from_owned_fd).transpose()?;
    let ended = tokio::select! {
        ended = parent.live() => ended?,
        _ = term.recv() => { parent.end(&Cause::Told, &mut term).await?; return Ok(()) }
        () = gone(&mut owner) => { parent.end(&Cause::OwnerGone, &mut term).await?; return Ok(()) }
    };
    // What is left are sidecars, and daemons of those that have ended.
    parent.containers.end_all(Ladder { signal: Signal::SIGTERM, grace: parent.plan.grace }).await;
    parent.write(ended)
}

/// Waits until the owner is gone. For ever, where there is none.
async fn gone(owner: &mut Option<pipe::Receiver>) {
    match owner {
        // Nothing is ever written to it.
        Some(pipe) => while matches!(pipe.read(&mut [0; 16]).await, Ok(1..)) {},
        None => std::future::pending().await,
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
            self.write(PodPhase::Pending)?;
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
        let first = self.plan.init.len();
        for container in first..first + self.plan.containers.len() {
            self.containers.start(container);
        }
        self.write(PodPhase::Running)?;
        loop {
            let all = || first..first + self.plan.containers.len();
            if all().all(|container| self.containers.has_ended(container)) {
                let well = all().all(|container| self.containers.has_ended_well(container));
                return Ok(if well { PodPhase::Succeeded } else { PodPhase::Failed });
            }
            self.wait(PodPhase::Running).await?;
        }
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
        let changed = tokio::select! {
            changed = self.containers.next_exit() => changed,
            () = timer => {
                self.containers.look_at_memory();
                self.containers.start_what_is_due()
            }
        };
        if changed { self.write(phase) } else { Ok(()) }
    }

    /// Ends everything, because somebody wants that.
    async fn end(&mut self, cause: &Cause, term: &mut tokio::signal::unix::Signal) -> io::Result<()> {
        let grace = match cause {
            Cause::Told => self.plan.grace,
            Cause::OwnerGone => Duration::ZERO,
        };
        let ladder = Ladder { signal: Signal::SIGTERM, grace };
        tokio::select! {
            () = self.containers.end_in_order(ladder) => {}
            // Told twice: at once.
            _ = term.recv() => {}
        }
        self.containers.end_all(Ladder { grace: Duration::ZERO, ..ladder }).await;
        self.write(PodPhase::Failed)
    }

    fn write(&self, phase: PodPhase) -> io::Result<()> {
        let status = PodStatus {
            uid: self.plan.uid.clone(),
            parent: (i32::try_from(std::process::id()).unwrap_or(0), 0),
            phase,
            reason: None,
            message: None,
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
