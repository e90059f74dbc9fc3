//! The containers of a pod: which run, which have ended and how, which are to be started again.

use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::num::NonZero;
use std::os::fd::OwnedFd;

use flexor_agent::processes::{
    Environment, Input, Ladder, LogFile, Outcome, Output, ProcessExit, ProcessKey, Processes, Program, Rotation,
    StartError,
};
use jiff::Timestamp;
use tokio::time::Instant;

use super::{memory, now, pause, starts_again};
use crate::pods::folder::PodFolder;
use crate::pods::plan::{ContainerPlan, PodPlan, RestartPolicy};
use crate::pods::status::{ContainerState, ContainerStatus};

/// A log is put aside at this size, and so many of those are kept.
const LOG: Rotation = Rotation { limit: NonZero::new(10 << 20).expect("more than nothing"), keep: 2 };
/// How much of an error file is kept in the status.
const MESSAGE: u64 = 16 << 10;

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
            Err(error) => {
                let code = if matches!(error, StartError::Program(_)) { 127 } else { 128 };
                terminated(code, "StartError", Some(error.to_string()), None, now())
            }
        };
        let container = &mut self.all[index];
        container.restart_at = None;
        container.status.state = state;
        if matches!(container.status.state, ContainerState::Terminated { .. }) {
            self.decide_restart(index, false);
        }
    }

    fn try_start(&mut self, index: usize) -> Result<u32, StartError> {
        let container = &self.all[index];
        let plan = &container.plan;
        let (program, args) = plan.command.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let log = LogFile::open(self.folder.log(&plan.name), Some(LOG)).map_err(StartError::Output)?;
        let descriptors: Result<Vec<OwnedFd>, _> = container.sockets.iter().map(OwnedFd::try_clone).collect();
        // What an earlier life left is not this one's.
        let error_file = self.folder.error_file(&plan.name);
        let _ = fs::remove_file(&error_file);
        let env = plan.env.iter().map(|(name, value)| (name.into(), value.into()));
        self.processes.start(
            ProcessKey(u32::try_from(index).unwrap_or(u32::MAX)),
            Program {
                environment: Environment::Exact(env.collect()),
                folder: Some(plan.folder.clone()),
                stdin: Input::Null,
                stdout: Output::Pumped { file: Some(log), prefix: None },
                stderr: Output::WithStdout,
                descriptors: descriptors.map_err(StartError::Spawn)?,
                ..Program::new(program, args)
            },
        )
    }

    /// Waits for the next container to end. Whether one did.
    pub(super) async fn next_exit(&mut self) -> bool {
        match self.processes.next_exit().await {
            Some(exit) => {
                self.note(&exit);
                true
            }
            // None runs: only time can change that.
            None => std::future::pending().await,
        }
    }

    fn note(&mut self, exit: &ProcessExit) {
        let index = exit.key.0 as usize;
        let message = self.read_error(index);
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
        container.status.state = terminated(code, reason, message, started_at, exit.at);
        self.decide_restart(index, code == 0);
    }

    fn decide_restart(&mut self, index: usize, well: bool) {
        let container = &mut self.all[index];
        if starts_again(self.policy, container.plan.sidecar, well)
            && (!well || container.plan.sidecar || index >= self.first_main)
        {
            container.restart_at = Some(Instant::now() + pause(container.status.restarts));
        }
    }

    /// What the program left to be read, if it is there and a text.
    fn read_error(&self, index: usize) -> Option<String> {
        let name = &self.all.get(index)?.plan.name;
        let mut text = String::new();
        let file = fs::File::open(self.folder.error_file(name)).ok()?;
        file.take(MESSAGE).read_to_string(&mut text).ok()?;
        Some(text).filter(|text| !text.trim().is_empty())
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

    /// Ends the containers, then what stands beside them.
    pub(super) async fn end_in_order(&mut self, ladder: Ladder) {
        let mains = self.first_main..self.all.len();
        for index in mains.chain((0..self.first_main).rev()) {
            let key = ProcessKey(u32::try_from(index).unwrap_or(u32::MAX));
            self.processes.end(key, ladder).await;
        }
    }

    /// Ends everything that is left, together, and notes how.
    pub(super) async fn end_all(&mut self, ladder: Ladder) {
        self.processes.end_all(ladder).await;
        while let Some(exit) = self.processes.take_exit() {
            self.note(&exit);
        }
    }

    pub(super) fn statuses(&self) -> Vec<ContainerStatus> {
        self.all.iter().map(|container| container.status.clone()).collect()
    }
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
