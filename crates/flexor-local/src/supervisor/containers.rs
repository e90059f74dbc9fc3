//! The containers of a pod: which run, which have ended and how, which are to be started again.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::num::NonZero;
use std::os::fd::OwnedFd;

use flexor_agent::processes::{
    Environment, ExitOutcome, Input, Ladder, LogCut, LogFile, Output, ProcessExit, ProcessKey, Processes, Program,
    ProgramError, Rotation, StartError,
};
use flexor_engine::nodes::BackOff;
use jiff::Timestamp;
use nix::sys::signal::Signal;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};

use super::memory::{self, Keeping};
use super::{last_words, mounts, now, starts_again};
use crate::limits::MemoryLimits;
use crate::pods::folder::PodFolder;
use crate::pods::plan::{ContainerPlan, PodPlan, RestartPolicy};
use crate::pods::status::{ContainerState, ContainerStatus};

/// A log is put aside at this size, and so many of those are kept.
const LOG: Rotation = Rotation { limit: NonZero::new(10 << 20).expect("more than nothing"), keep: 2 };
/// Before a container is started again, as the kubelet waits; one that ran for ten minutes begins anew. One that was killed
/// comes back at once, unless it is killed as soon as it starts.
const PAUSES: BackOff = BackOff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(300),
    good_run: Duration::from_secs(600),
    lost_soon: Duration::from_secs(2),
    longest_of_lost: Duration::from_secs(10),
};
/// Nobody is asked.
const AT_ONCE: Ladder = Ladder { signal: Signal::SIGTERM, grace: Duration::ZERO };

/// How a container has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// By itself, with code 0.
    Well,
    /// By itself, otherwise; or it could not be started.
    Failed,
    /// Somebody killed it.
    Killed,
}

pub(super) struct Containers {
    all: Vec<Container>,
    first_main: usize,
    policy: RestartPolicy,
    uid: String,
    folder: PodFolder,
    processes: Processes,
    limits: MemoryLimits,
    /// Where logs that cannot be written any more are told of.
    cut: (mpsc::UnboundedSender<LogCut>, mpsc::UnboundedReceiver<LogCut>),
}

/// Something that has become of a container.
pub(super) enum News {
    /// It has ended.
    Exit(ProcessExit),
    /// Its log cannot be written any more.
    LogCut(LogCut),
}

struct Container {
    plan: ContainerPlan,
    sockets: Vec<OwnedFd>,
    status: ContainerStatus,
    restart_at: Option<Instant>,
    /// How often it has ended too soon, in a row.
    short_runs: u32,
    keeping: Keeping,
    /// How long its log was when it was started.
    log_began: u64,
    /// It was killed for its memory.
    out_of_memory: bool,
}

impl Containers {
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
                    log_cut: None,
                },
                plan: plan.clone(),
                restart_at: None,
                short_runs: 0,
                keeping: Keeping::Nothing,
                log_began: 0,
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
            self.decide_restart(index, End::Failed, Duration::ZERO);
        }
    }

    fn try_start(&mut self, index: usize) -> Result<u32, StartError> {
        let container = &mut self.all[index];
        let plan = &container.plan;
        let (program, args) = plan.command.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let path = self.folder.log(&plan.name);
        container.log_began = fs::metadata(&path).map_or(0, |file| file.len());
        let log = LogFile::open(path, Some(LOG)).map_err(StartError::Output)?.with_cut_listener(self.cut.0.clone());
        container.status.log_cut = None;
        let descriptors: Result<Vec<OwnedFd>, _> = container.sockets.iter().map(OwnedFd::try_clone).collect();
        // What an earlier life left is not this one's.
        let error_file = self.folder.error_file(&plan.name);
        let _ = fs::remove_file(&error_file);
        let mut env: BTreeMap<OsString, OsString> =
            plan.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        if !container.sockets.is_empty() {
            env.insert("LISTEN_FDS".into(), container.sockets.len().to_string().into());
        }
        container.keeping = Keeping::begin(plan.memory, &self.limits, &self.uid, &plan.name);
        container.status.limited = container.keeping.told();
        self.processes.start(
            key(index),
            Program {
                environment: Environment::Exact(env),
                folder: Some(plan.folder.clone()),
                stdin: Input::Null,
                stdout: Output::Pumped { file: Some(log), prefix: None },
                stderr: Output::WithStdout,
                descriptors: descriptors.map_err(StartError::Spawn)?,
                groups: container.keeping.groups(),
                mounts: mounts::prepare(&plan.mounts, &self.folder)?,
                ..Program::new(program, args)
            },
        )
    }

    /// What becomes of the next one. Giving up this wait loses nothing.
    pub(super) async fn next_news(&mut self) -> News {
        let (exit, cut) = (self.processes.next_exit(), self.cut.1.recv());
        tokio::select! {
            Some(exit) = exit => News::Exit(exit),
            Some(cut) = cut => News::LogCut(cut),
            // None runs: only time can change that.
            else => std::future::pending().await,
        }
    }

    /// Takes in what has become of one. When it has ended, so does all that it started, and why it failed is looked for.
    pub(super) async fn settle(&mut self, news: News) {
        match news {
            News::Exit(exit) => {
                self.note(&exit);
                self.processes.end(exit.key, AT_ONCE).await;
                self.note_why(exit.key.0 as usize);
            }
            News::LogCut(cut) => self.note_cut(&cut),
        }
    }

    fn note_cut(&mut self, cut: &LogCut) {
        let folder = &self.folder;
        let whose = self.all.iter_mut().find(|container| folder.log(&container.plan.name) == cut.path);
        if let Some(container) = whose {
            container.status.log_cut = Some(cut.error.to_string());
        }
    }

    fn note(&mut self, exit: &ProcessExit) {
        let index = exit.key.0 as usize;
        let Some(container) = self.all.get_mut(index) else { return };
        let (code, reason) = match exit.outcome {
            ExitOutcome::Signal(9) if container.out_of_memory => (137, "OOMKilled"),
            // It may have made anything of the child that it lost; without that it is not what it was.
            _ if container.keeping.has_killed() => (137, "OOMKilled"),
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
            (0, _) => End::Well,
            (137, "Error") => End::Killed,
            _ => End::Failed,
        };
        if end == End::Killed {
            container.status.killed_at = Some(exit.at);
        }
        self.decide_restart(index, end, ran);
    }

    /// Notes why a container failed, of which all was read: what it left to be read, else the last line that it printed.
    fn note_why(&mut self, index: usize) {
        while let Ok(cut) = self.cut.1.try_recv() {
            self.note_cut(&cut);
        }
        let Some(container) = self.all.get_mut(index) else { return };
        if let ContainerState::Terminated { exit_code: 1.., message, .. } = &mut container.status.state {
            let name = &container.plan.name;
            let left = last_words::of_error_file(&self.folder.error_file(name));
            *message = left.or_else(|| last_words::of_log(&self.folder.log(name), container.log_began));
        }
    }

    fn decide_restart(&mut self, index: usize, end: End, ran: Duration) {
        let container = &mut self.all[index];
        let well = end == End::Well;
        if starts_again(self.policy, container.plan.sidecar, well)
            && (!well || container.plan.sidecar || index >= self.first_main)
        {
            let pause;
            (container.short_runs, pause) = pause_after(container.short_runs, ran, end);
            container.restart_at = Some(Instant::now() + pause);
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

    /// How often their memory has to be looked at.
    pub(super) fn look_every(&self) -> Option<Duration> {
        let runs = |container: &&Container| matches!(container.status.state, ContainerState::Running { .. });
        self.all.iter().filter(runs).filter_map(|container| container.keeping.look_every()).min()
    }

    /// Kills those that want more memory than they may have.
    pub(super) fn look_at_memory(&mut self) {
        for container in &mut self.all {
            let ContainerState::Running { pid, .. } = container.status.state else { continue };
            if container.keeping.is_exceeded(pid) {
                container.out_of_memory = true;
                memory::kill(pid);
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

    /// Kills everything that is left, and removes the groups that it was in.
    pub(super) async fn kill_all(&mut self) {
        self.processes.end_all(AT_ONCE).await;
        self.note_all();
        if let Some(groups) = self.limits.groups()
            && let Err(error) = groups.remove_pod(&self.uid)
        {
            tracing::warn!(%error, "control groups cannot be removed");
        }
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
        StartError::Running { .. }
        | StartError::Folder { .. }
        | StartError::Mount(_)
        | StartError::Output(_)
        | StartError::Spawn(_) => 128,
    }
}

/// How many short runs in a row there are once one of this length has ended, and how long to wait then.
fn pause_after(short_runs: u32, ran: Duration, end: End) -> (u32, Duration) {
    let short_runs = PAUSES.short_runs(short_runs, ran);
    let pause = match end {
        End::Killed => PAUSES.wait_of_lost(short_runs, ran),
        End::Well | End::Failed => PAUSES.wait(short_runs.max(1)),
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
    fn a_container_that_ran_well_is_not_held_back_by_what_was_before() {
        let (mut short_runs, mut waited) = (0, Vec::new());
        for minutes in [0, 1, 9, 10, 0, 0] {
            let pause;
            (short_runs, pause) = pause_after(short_runs, Duration::from_secs(60 * minutes), End::Failed);
            waited.push(pause.as_secs());
        }
        assert_eq!(waited, [1, 2, 4, 1, 1, 2]);
    }
}
