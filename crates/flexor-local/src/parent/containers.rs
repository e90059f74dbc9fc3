//! The containers of a pod: which run, which have ended and how, which are to be started again.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::num::NonZero;
use std::os::fd::OwnedFd;

use flexor_agent::processes::{
    Environment, Input, Ladder, LogFile, Outcome, Output, ProcessExit, ProcessKey, Processes, Program, ProgramError,
    Rotation, StartError,
};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use tokio::time::{Duration, Instant};

use super::{last_words, memory, now, pause, starts_again};
use crate::pods::folder::PodFolder;
use crate::pods::plan::{ContainerPlan, PodPlan, RestartPolicy};
use crate::pods::status::{ContainerState, ContainerStatus};

/// A log is put aside at this size, and so many of those are kept.
const LOG: Rotation = Rotation { limit: NonZero::new(10 << 20).expect("more than nothing"), keep: 2 };
/// Nobody is asked.
const AT_ONCE: Ladder = Ladder { signal: Signal::SIGTERM, grace: Duration::ZERO };

pub(super) struct Containers {
    all: Vec<Container>,
    first_main: usize,
    policy: RestartPolicy,
    folder: PodFolder,
    processes: Processes,
}

struct Container {
    plan: ContainerPlan,
    sockets: Vec<OwnedFd>,
    status: ContainerStatus,
    restart_at: Option<Instant>,
    /// How long its log was when it was started.
    log_began: u64,
    /// It was killed for its memory.
    out_of_memory: bool,
}

impl Containers {
    pub(super) fn new(plan: &PodPlan, folder: &PodFolder, processes: Processes, sockets: Vec<OwnedFd>) -> Self {
        let mut sockets: VecDeque<OwnedFd> = sockets.into();
        let planned = plan.init.iter().zip(std::iter::repeat(true));
        let planned = planned.chain(plan.containers.iter().zip(std::iter::repeat(false)));
        let all = planned.map(|(plan, init)| {
            let own = plan.sockets.min(sockets.len());
            let state = ContainerState::Waiting(if init { "PodInitializing" } else { "ContainerCreating" }.to_owned());
            Container {
                sockets: sockets.drain(..own).collect(),
                status: ContainerStatus { name: plan.name.clone(), state, restarts: 0, init },
                plan: plan.clone(),
                restart_at: None,
                log_began: 0,
                out_of_memory: false,
            }
        });
        Self {
            all: all.collect(),
            first_main: plan.init.len(),
            policy: plan.restart,
            folder: folder.clone(),
            processes,
        }
    }

    /// Starts a container, or notes why it cannot be started.
    pub(super) fn start(&mut self, index: usize) {
        let state = match self.try_start(index) {
            Ok(pid) => ContainerState::Running { pid, started_at: now() },
            Err(error) => terminated(not_started(&error), "StartError", Some(error.to_string()), None, now()),
        };
        let container = &mut self.all[index];
        container.restart_at = None;
        container.status.state = state;
        if matches!(container.status.state, ContainerState::Terminated { .. }) {
            self.decide_restart(index, false);
        }
    }

    fn try_start(&mut self, index: usize) -> Result<u32, StartError> {
        let container = &mut self.all[index];
        let plan = &container.plan;
        let (program, args) = plan.command.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let path = self.folder.log(&plan.name);
        container.log_began = fs::metadata(&path).map_or(0, |file| file.len());
        let log = LogFile::open(path, Some(LOG)).map_err(StartError::Output)?;
        let descriptors: Result<Vec<OwnedFd>, _> = container.sockets.iter().map(OwnedFd::try_clone).collect();
        // What an earlier life left is not this one's.
        let error_file = self.folder.error_file(&plan.name);
        let _ = fs::remove_file(&error_file);
        let mut env: BTreeMap<OsString, OsString> =
            plan.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        if !container.sockets.is_empty() {
            env.insert("LISTEN_FDS".into(), container.sockets.len().to_string().into());
        }
        self.processes.start(
            key(index),
            Program {
                environment: Environment::Exact(env),
                folder: Some(plan.folder.clone()),
                stdin: Input::Null,
                stdout: Output::Pumped { file: Some(log), prefix: None },
                stderr: Output::WithStdout,
                descriptors: descriptors.map_err(StartError::Spawn)?,
                ..Program::new(program, args)
            },
        )
    }

    /// The next container that ends. Giving up this wait loses nothing.
    pub(super) async fn next_exit(&mut self) -> ProcessExit {
        match self.processes.next_exit().await {
            Some(exit) => exit,
            // None runs: only time can change that.
            None => std::future::pending().await,
        }
    }

    /// A container has ended: so does all that it started, and why it failed is looked for.
    pub(super) async fn settle(&mut self, exit: ProcessExit) {
        self.note(&exit);
        self.processes.end(exit.key, AT_ONCE).await;
        self.note_why(exit.key.0 as usize);
    }

    fn note(&mut self, exit: &ProcessExit) {
        let index = exit.key.0 as usize;
        let Some(container) = self.all.get_mut(index) else { return };
        let (code, reason) = match exit.outcome {
            Outcome::Signal(9) if container.out_of_memory => (137, "OOMKilled"),
            Outcome::Code(0) => (0, "Completed"),
            Outcome::Code(code) => (code, "Error"),
            Outcome::Signal(signal) => (128 + signal, "Error"),
        };
        let started_at = match container.status.state {
            ContainerState::Running { started_at, .. } => Some(started_at),
            ContainerState::Waiting(_) | ContainerState::Terminated { .. } => None,
        };
        container.out_of_memory = false;
        container.status.state = terminated(code, reason, None, started_at, exit.at);
        self.decide_restart(index, code == 0);
    }

    /// Notes why a container failed: what it left to be read, else the last line that it printed.
    fn note_why(&mut self, index: usize) {
        let Some(container) = self.all.get_mut(index) else { return };
        if let ContainerState::Terminated { exit_code: 1.., message, .. } = &mut container.status.state {
            let name = &container.plan.name;
            let left = last_words::of_error_file(&self.folder.error_file(name));
            *message = left.or_else(|| last_words::of_log(&self.folder.log(name), container.log_began));
        }
    }

    fn decide_restart(&mut self, index: usize, well: bool) {
        let container = &mut self.all[index];
        if starts_again(self.policy, container.plan.sidecar, well)
            && (!well || container.plan.sidecar || index >= self.first_main)
        {
            container.restart_at = Some(Instant::now() + pause(container.status.restarts));
        }
    }

    pub(super) fn next_restart(&self) -> Option<Instant> {
        self.all.iter().filter_map(|container| container.restart_at).min()
    }

    /// Starts those whose time has come. Whether there were any.
    pub(super) fn start_what_is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = |container: &Container| container.restart_at.is_some_and(|at| at <= now);
        let due: Vec<usize> = (0..self.all.len()).filter(|index| due(&self.all[*index])).collect();
        for index in &due {
            self.all[*index].status.restarts += 1;
            self.start(*index);
        }
        !due.is_empty()
    }

    pub(super) fn limits_memory(&self) -> bool {
        self.all.iter().any(|container| container.plan.memory.is_some())
    }

    /// Kills those that have more memory than they may.
    pub(super) fn look_at_memory(&mut self) {
        for container in &mut self.all {
            let (Some(limit), ContainerState::Running { pid, .. }) = (container.plan.memory, &container.status.state)
            else {
                continue;
            };
            if memory::is_exceeded(*pid, limit) {
                container.out_of_memory = true;
                memory::kill(*pid);
            }
        }
    }

    /// Whether a container has ended for good.
    pub(super) fn has_ended(&self, index: usize) -> bool {
        let container = &self.all[index];
        matches!(container.status.state, ContainerState::Terminated { .. }) && container.restart_at.is_none()
    }

    pub(super) fn has_ended_well(&self, index: usize) -> bool {
        matches!(self.all[index].status.state, ContainerState::Terminated { exit_code: 0, .. })
    }

    /// Ends the containers together, then what stands beside them, the last that was started first.
    pub(super) async fn end_in_order(&mut self, grace: Duration) {
        let until = Instant::now() + grace;
        let mains: Vec<ProcessKey> = (self.first_main..self.all.len()).map(key).collect();
        self.end(&mains, until).await;
        for index in (0..self.first_main).rev() {
            self.end(&[key(index)], until).await;
        }
    }

    async fn end(&mut self, keys: &[ProcessKey], until: Instant) {
        let grace = until.saturating_duration_since(Instant::now());
        self.processes.end_some(keys, Ladder { grace, ..AT_ONCE }).await;
        self.note_all();
    }

    /// Kills everything that is left.
    pub(super) async fn kill_all(&mut self) {
        self.processes.end_all(AT_ONCE).await;
        self.note_all();
    }

    fn note_all(&mut self) {
        while let Some(exit) = self.processes.take_exit() {
            self.note(&exit);
            self.note_why(exit.key.0 as usize);
        }
    }

    pub(super) fn statuses(&self) -> Vec<ContainerStatus> {
        self.all.iter().map(|container| container.status.clone()).collect()
    }
}

/// What a shell answers for a program that it cannot start; a container runtime for all else.
fn not_started(error: &StartError) -> i32 {
    match error {
        StartError::Program(ProgramError::NotExecutable { .. } | ProgramError::Folder { .. }) => 126,
        StartError::Program(_) => 127,
        StartError::Running { .. } | StartError::Folder { .. } | StartError::Output(_) | StartError::Spawn(_) => 128,
    }
}

fn key(index: usize) -> ProcessKey {
    ProcessKey(u32::try_from(index).unwrap_or(u32::MAX))
}

fn terminated(
    exit_code: i32,
    reason: &str,
    message: Option<String>,
    started_at: Option<Timestamp>,
    finished_at: Timestamp,
) -> ContainerState {
    ContainerState::Terminated { exit_code, reason: reason.to_owned(), message, started_at, finished_at }
}
