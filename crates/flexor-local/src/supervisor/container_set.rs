//! The containers of a pod: which run, which have ended and how, and which restart when.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::num::NonZero;
use std::os::fd::OwnedFd;

use flexor_agent::processes::{
    Environment, ExitOutcome, FailureWatch, Input, Ladder, LogCut, LogFile, Output, ProcessExit, ProcessKey, Processes,
    Program, Rotation, StartError,
};
use flexor_engine::nodes::BackOff;
use jiff::Timestamp;
use nix::sys::signal::Signal;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};

use super::failure_message::ContainerOutput;
use super::memory::{self, MemoryGuard};
use super::{launched_program, mounts, now, restarts};
use crate::limits::MemoryLimits;
use crate::pods::folder::PodFolder;
use crate::pods::plan::{ContainerPlan, PodPlan, RestartPolicy};
use crate::pods::status::{ContainerState, ContainerStatus};

/// A log is rotated at this size, and so many rotated logs are kept.
const LOG: Rotation = Rotation { limit: NonZero::new(10 << 20).expect("more than nothing"), keep: 2 };
/// The back-off before a container restarts, as the kubelet's: ten minutes of running reset it. A killed container
/// restarts at once, unless it is killed as soon as it starts.
const BACK_OFF: BackOff = BackOff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(300),
    good_run: Duration::from_secs(600),
    lost_soon: Duration::from_secs(2),
    longest_of_lost: Duration::from_secs(10),
};
/// SIGKILL without a grace period.
const AT_ONCE: Ladder = Ladder { signal: Signal::SIGTERM, grace: Duration::ZERO };

/// How a container has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContainerEnd {
    Succeeded,
    /// With another exit code than 0, or it could not be started.
    Failed,
    /// By a SIGKILL from outside.
    Killed,
}

pub(super) struct ContainerSet {
    all: Vec<Container>,
    first_main: usize,
    policy: RestartPolicy,
    uid: String,
    folder: PodFolder,
    processes: Processes,
    limits: MemoryLimits,
    /// Reports of logs that could not be written to their end.
    cut: (mpsc::UnboundedSender<LogCut>, mpsc::UnboundedReceiver<LogCut>),
}

pub(super) enum ContainerEvent {
    Exit(ProcessExit),
    /// The container's log cannot be written any more.
    LogCut(LogCut),
}

struct Container {
    plan: ContainerPlan,
    sockets: Vec<OwnedFd>,
    status: ContainerStatus,
    restart_at: Option<Instant>,
    /// How many short runs it has had in a row.
    short_runs: u32,
    memory_guard: MemoryGuard,
    /// The length of its log when it was started.
    log_start: u64,
    /// What its output tells of a failure.
    watch: FailureWatch,
    /// The supervisor killed it for its memory.
    out_of_memory: bool,
}

impl ContainerSet {
    pub(super) fn new(
        plan: &PodPlan,
        folder: &PodFolder,
        processes: Processes,
        sockets: Vec<OwnedFd>,
        limits: MemoryLimits,
    ) -> Self {
        let mut sockets: VecDeque<OwnedFd> = sockets.into();
        let planned = plan.init.iter().zip(std::iter::repeat(true));
        let planned = planned.chain(plan.containers.iter().zip(std::iter::repeat(false)));
        let all = planned.map(|(plan, init)| {
            let own = plan.sockets.min(sockets.len());
            let state = ContainerState::Waiting(if init { "PodInitializing" } else { "ContainerCreating" }.to_owned());
            Container {
                sockets: sockets.drain(..own).collect(),
                status: ContainerStatus {
                    name: plan.name.clone(),
                    state,
                    restarts: 0,
                    init,
                    limited: None,
                    killed_at: None,
                    failed_at: None,
                    log_cut: None,
                },
                plan: plan.clone(),
                restart_at: None,
                short_runs: 0,
                memory_guard: MemoryGuard::Unlimited,
                log_start: 0,
                watch: FailureWatch::default(),
                out_of_memory: false,
            }
        });
        Self {
            all: all.collect(),
            first_main: plan.init.len(),
            policy: plan.restart,
            uid: plan.uid.clone(),
            folder: folder.clone(),
            processes,
            limits,
            cut: mpsc::unbounded_channel(),
        }
    }

    /// Starts a container, or records why it cannot be started.
    pub(super) fn start(&mut self, index: usize) {
        let state = match self.try_start(index) {
            Ok(pid) => ContainerState::Running { pid, started_at: now() },
            Err(error) => terminated(start_error_code(&error), "StartError", Some(error.to_string()), None, now()),
        };
        let container = &mut self.all[index];
        container.restart_at = None;
        container.status.state = state;
        if matches!(container.status.state, ContainerState::Terminated { .. }) {
            self.decide_restart(index, ContainerEnd::Failed, Duration::ZERO);
        }
    }

    fn try_start(&mut self, index: usize) -> Result<u32, StartError> {
        let container = &mut self.all[index];
        let plan = &container.plan;
        let (program, args) = plan.command.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        // What is in a mount only the program sees.
        if plan.mounts.is_empty() {
            launched_program::check(&plan.command, plan.env.get("PATH").map(String::as_str), &plan.folder)?;
        }
        let path = self.folder.log(&plan.name);
        container.log_start = fs::metadata(&path).map_or(0, |file| file.len());
        let log = LogFile::open(path, Some(LOG)).map_err(StartError::Output)?.with_cut_listener(self.cut.0.clone());
        (container.status.log_cut, container.status.failed_at) = (None, None);
        container.watch = FailureWatch::default();
        let descriptors: Result<Vec<OwnedFd>, _> = container.sockets.iter().map(OwnedFd::try_clone).collect();
        // An error file of an earlier run says nothing about this one.
        let error_file = self.folder.error_file(&plan.name);
        let _ = fs::remove_file(&error_file);
        let mut env: BTreeMap<OsString, OsString> =
            plan.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        if !container.sockets.is_empty() {
            env.insert("LISTEN_FDS".into(), container.sockets.len().to_string().into());
        }
        container.memory_guard = MemoryGuard::begin(plan.memory, &self.limits, &self.uid, &plan.name);
        container.status.limited = container.memory_guard.limit();
        self.processes.start(
            key(index),
            Program {
                environment: Environment::Exact(env),
                folder: Some(plan.folder.clone()),
                stdin: Input::Null,
                stdout: Output::Pumped { file: Some(log), prefix: None, watch: Some(container.watch.clone()) },
                stderr: Output::WithStdout,
                descriptors: descriptors.map_err(StartError::Spawn)?,
                groups: container.memory_guard.groups(),
                mounts: mounts::prepare(&plan.mounts, &self.folder)?,
                ..Program::new(program, args)
            },
        )
    }

    /// Waits for the next event of any container. Cancelling the wait loses nothing.
    pub(super) async fn next_event(&mut self) -> ContainerEvent {
        let (exit, cut) = (self.processes.next_exit(), self.cut.1.recv());
        tokio::select! {
            Some(exit) = exit => ContainerEvent::Exit(exit),
            Some(cut) = cut => ContainerEvent::LogCut(cut),
            // No container runs: only a timer can change that.
            else => std::future::pending().await,
        }
    }

    /// Handles an event. When a container has ended, its descendants are killed and its failure message is read.
    pub(super) async fn handle(&mut self, event: ContainerEvent) {
        match event {
            ContainerEvent::Exit(exit) => {
                self.record_exit(&exit);
                self.processes.end(exit.key, AT_ONCE).await;
                self.record_message(exit.key.0 as usize);
            }
            ContainerEvent::LogCut(cut) => self.record_cut(&cut),
        }
    }

    fn record_cut(&mut self, cut: &LogCut) {
        let folder = &self.folder;
        let whose = self.all.iter_mut().find(|container| folder.log(&container.plan.name) == cut.path);
        if let Some(container) = whose {
            container.status.log_cut = Some(cut.error.to_string());
        }
    }

    fn record_exit(&mut self, exit: &ProcessExit) {
        let index = exit.key.0 as usize;
        let Some(container) = self.all.get_mut(index) else { return };
        let (code, reason) = match exit.outcome {
            ExitOutcome::Signal(9) if container.out_of_memory => (137, "OOMKilled"),
            // The program lost a child to the OOM killer, whatever it then exited with.
            _ if container.memory_guard.has_killed() => (137, "OOMKilled"),
            ExitOutcome::Code(0) => (0, "Completed"),
            ExitOutcome::Code(code) => (code, "Error"),
            ExitOutcome::Signal(signal) => (128 + signal, "Error"),
        };
        let started_at = match container.status.state {
            ContainerState::Running { started_at, .. } => Some(started_at),
            ContainerState::Waiting(_) | ContainerState::Terminated { .. } => None,
        };
        container.out_of_memory = false;
        container.status.state = terminated(code, reason, None, started_at, exit.at);
        let ran = started_at.map_or(Duration::ZERO, |at| exit.at.duration_since(at).unsigned_abs());
        let end = match (code, reason) {
            (0, _) => ContainerEnd::Succeeded,
            (137, "Error") => ContainerEnd::Killed,
            _ => ContainerEnd::Failed,
        };
        if end == ContainerEnd::Killed {
            container.status.killed_at = Some(exit.at);
        }
        self.decide_restart(index, end, ran);
    }

    /// Records why a container failed, and when. All its output has been read by then.
    fn record_message(&mut self, index: usize) {
        while let Ok(cut) = self.cut.1.try_recv() {
            self.record_cut(&cut);
        }
        let Some(container) = self.all.get_mut(index) else { return };
        if let ContainerState::Terminated { exit_code: exit_code @ 1.., reason, message, .. } =
            &mut container.status.state
        {
            let name = &container.plan.name;
            let output = ContainerOutput {
                error_file: self.folder.error_file(name),
                log: self.folder.log(name),
                log_start: container.log_start,
                is_out_of_memory: reason == "OOMKilled",
                watch: &container.watch,
            };
            let failure = output.failure(*exit_code);
            *message = failure.as_ref().map(|failure| failure.message.clone());
            container.status.failed_at = failure.and_then(|failure| failure.at);
        }
    }

    fn decide_restart(&mut self, index: usize, end: ContainerEnd, ran: Duration) {
        let container = &mut self.all[index];
        let succeeded = end == ContainerEnd::Succeeded;
        if restarts(self.policy, container.plan.sidecar, succeeded)
            && (!succeeded || container.plan.sidecar || index >= self.first_main)
        {
            let pause;
            (container.short_runs, pause) = back_off_after(container.short_runs, ran, end);
            container.restart_at = Some(Instant::now() + pause);
        }
    }

    pub(super) fn next_restart(&self) -> Option<Instant> {
        self.all.iter().filter_map(|container| container.restart_at).min()
    }

    /// Restarts the containers whose back-off is over. Returns whether there were any.
    pub(super) fn restart_due(&mut self) -> bool {
        let now = Instant::now();
        let due = |container: &Container| container.restart_at.is_some_and(|at| at <= now);
        let due: Vec<usize> = (0..self.all.len()).filter(|index| due(&self.all[*index])).collect();
        for index in &due {
            self.all[*index].status.restarts += 1;
            self.start(*index);
        }
        !due.is_empty()
    }

    /// How often the memory of running containers has to be polled.
    pub(super) fn poll_interval(&self) -> Option<Duration> {
        let runs = |container: &&Container| matches!(container.status.state, ContainerState::Running { .. });
        self.all.iter().filter(runs).filter_map(|container| container.memory_guard.poll_interval()).min()
    }

    /// Kills the containers that exceed their memory limit.
    pub(super) fn check_memory(&mut self) {
        for container in &mut self.all {
            let ContainerState::Running { pid, .. } = container.status.state else { continue };
            if container.memory_guard.is_exceeded(pid) {
                container.out_of_memory = true;
                memory::kill(pid);
            }
        }
    }

    /// Whether a container has ended and will not restart.
    pub(super) fn has_ended(&self, index: usize) -> bool {
        let container = &self.all[index];
        matches!(container.status.state, ContainerState::Terminated { .. }) && container.restart_at.is_none()
    }

    pub(super) fn has_succeeded(&self, index: usize) -> bool {
        matches!(self.all[index].status.state, ContainerState::Terminated { exit_code: 0, .. })
    }

    /// Ends the containers together, then the sidecars in the reverse order of their start.
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
        self.record_exits();
    }

    /// Kills everything that is left, and removes its cgroups.
    pub(super) async fn kill_all(&mut self) {
        self.processes.end_all(AT_ONCE).await;
        self.record_exits();
        if let Some(groups) = self.limits.groups()
            && let Err(error) = groups.remove_pod(&self.uid)
        {
            tracing::warn!(%error, "control groups cannot be removed");
        }
    }

    fn record_exits(&mut self) {
        while let Some(exit) = self.processes.take_exit() {
            self.record_exit(&exit);
            self.record_message(exit.key.0 as usize);
        }
    }

    pub(super) fn statuses(&self) -> Vec<ContainerStatus> {
        self.all.iter().map(|container| container.status.clone()).collect()
    }
}

/// The exit code of a program that could not be started: a shell's, else a container runtime's.
fn start_error_code(error: &StartError) -> i32 {
    match error {
        StartError::Program(error) => error.exit_code().into(),
        StartError::Folder { .. } => 127,
        StartError::Running { .. } | StartError::Mount(_) | StartError::Output(_) | StartError::Spawn(_) => 128,
    }
}

/// The short runs in a row after a run of this length, and the back-off that follows.
fn back_off_after(short_runs: u32, ran: Duration, end: ContainerEnd) -> (u32, Duration) {
    let short_runs = BACK_OFF.short_runs(short_runs, ran);
    let pause = match end {
        ContainerEnd::Killed => BACK_OFF.wait_of_lost(short_runs, ran),
        ContainerEnd::Succeeded | ContainerEnd::Failed => BACK_OFF.wait(short_runs.max(1)),
    };
    (short_runs, pause)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_resets_the_back_off() {
        let (mut short_runs, mut waited) = (0, Vec::new());
        for minutes in [0, 1, 9, 10, 0, 0] {
            let pause;
            (short_runs, pause) = back_off_after(short_runs, Duration::from_secs(60 * minutes), ContainerEnd::Failed);
            waited.push(pause.as_secs());
        }
        assert_eq!(waited, [1, 2, 4, 1, 1, 2]);
    }
}
