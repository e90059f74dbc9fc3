//! The worker group: the workers of this node, started together and ended together.
//!
//! One task owns it. [`WorkerGroup::next_exit`] returns exits in the order in which they were seen. [`WorkerGroup::end`]
//! ends the workers with everything that they have left behind. A group that is dropped without that kills what is left
//! and waits for nothing. [`crate::processes`] holds what applies to any process.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::error_file::{ERROR_FILE_VARIABLE, ErrorReport};
use super::logs::{AttemptLogs, LogError};
use super::redirected_log::RedirectedLog;
use super::root_cause::{self, FirstFailure};
use super::worker::{GlobalRank, LocalRank, WorkerSpec};
use super::worker_exit::WorkerExit;
use crate::processes::{
    self, Environment, ExitOutcome, FailureWatch, Ladder, PrintedCause, ProcessExit, ProcessKey, Processes, Program,
    ProgramError, Shim, Termination, find_program,
};

/// Why a group was not started. None of its workers is left running.
#[derive(Debug, Error)]
pub enum GroupStartError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Logs(#[from] LogError),
    /// The system refuses to start a worker.
    #[error("cannot start the worker of local rank {local_rank}: {cause}")]
    Process { local_rank: LocalRank, cause: processes::StartError },
    /// The system does not let us watch processes.
    #[error(
        "cannot watch child processes: {0}; is /proc mounted, and does the kernel keep lists of children in it \
         (CONFIG_PROC_CHILDREN)?"
    )]
    ChildWatch(io::Error),
}

impl GroupStartError {
    /// What is wrong with the program, if it is at fault and not the machine.
    pub fn of_program(&self) -> Option<&ProgramError> {
        match self {
            GroupStartError::Program(error) => Some(error),
            GroupStartError::Process { cause: processes::StartError::Program(error), .. } => Some(error),
            GroupStartError::Process { .. } | GroupStartError::Logs(_) | GroupStartError::ChildWatch(_) => None,
        }
    }
}

/// The workers of this node.
pub struct WorkerGroup {
    processes: Processes,
    workers: BTreeMap<ProcessKey, GroupWorker>,
    /// In the order in which they were seen. The first `returned` have come out of `next_exit`.
    exits: Vec<WorkerExit>,
    returned: usize,
    /// Whether the launcher has begun to end the group.
    is_ending: bool,
}

struct GroupWorker {
    local_rank: LocalRank,
    rank: Option<GlobalRank>,
    error_file: PathBuf,
    /// What its output tells of a failure.
    watch: FailureWatch,
    redirected_log: Option<RedirectedLog>,
    is_python: bool,
}

impl WorkerGroup {
    /// Starts one process per spec, each in a session of its own, with the files of `logs`.
    ///
    /// Every program is looked up before the first one starts. Call it on a tokio runtime, from a thread that outlives the
    /// workers, as with [`Processes::start`].
    ///
    /// # Errors
    ///
    /// A program is missing, or a log file or a process cannot be created. Nothing is left behind.
    pub fn start(shim: &Shim, specs: &[WorkerSpec], logs: &AttemptLogs) -> Result<Self, GroupStartError> {
        for spec in specs {
            let path = spec.environment.resolve("PATH", env::var_os("PATH"));
            find_program(&spec.program, path.as_deref(), None)?;
        }
        let mut group = Self {
            processes: Processes::new(shim.clone()).map_err(GroupStartError::ChildWatch)?,
            workers: BTreeMap::new(),
            exits: Vec::with_capacity(specs.len()),
            returned: 0,
            is_ending: false,
        };
        for spec in specs {
            let (local_rank, rank) = (spec.local_rank, spec.rank);
            logs.prepare(local_rank)?;
            let error_file = logs.error_file(local_rank);
            let watch = FailureWatch::default();
            let redirected_log = logs.redirected_stderr(local_rank);
            let mut environment = spec.environment.clone();
            environment.set(ERROR_FILE_VARIABLE, &error_file);
            let program = Program {
                environment: Environment::Inherited(environment),
                stdout: logs.stdout(spec)?,
                stderr: logs.stderr(spec, &watch)?,
                ..Program::new(&spec.program, &spec.args)
            };
            let key = ProcessKey(local_rank.0);
            let started = group.processes.start(key, program);
            started.map_err(|cause| GroupStartError::Process { local_rank, cause })?;
            let is_python = is_python(&spec.program);
            group.workers.insert(key, GroupWorker { local_rank, rank, error_file, watch, redirected_log, is_python });
        }
        Ok(group)
    }

    /// The next exit; `None` when all workers have ended. Dropping the future loses nothing.
    pub async fn next_exit(&mut self) -> Option<WorkerExit> {
        self.collect();
        if self.returned == self.exits.len() {
            let exit = self.processes.next_exit().await?;
            self.note(exit);
        }
        let exit = self.exits.get(self.returned).cloned();
        self.returned += 1;
        exit
    }

    /// All exits, in the order in which they were seen.
    pub fn exits(&self) -> &[WorkerExit] {
        &self.exits
    }

    /// The first worker in which the program failed, as far as it is known: one that has failed, or one that wrote an
    /// earlier report and is about to end.
    pub fn first_failure(&mut self) -> Option<FirstFailure> {
        self.collect();
        let has_ended = |local: LocalRank| self.exits.iter().any(|exit| exit.local_rank == local);
        let running = self.workers.values().filter(|worker| !has_ended(worker.local_rank));
        let reports = running.filter_map(|worker| Some((worker.local_rank, ErrorReport::read(&worker.error_file)?)));
        root_cause::first_failure(&self.exits, reports)
    }

    /// The workers have moved to another world, where the first of them has this rank.
    pub fn set_ranks(&mut self, first: GlobalRank) {
        for worker in self.workers.values_mut() {
            worker.rank = Some(GlobalRank(first.0 + worker.local_rank.0));
        }
    }

    /// Number of workers whose exit was not seen yet.
    pub fn running(&self) -> usize {
        self.workers.len() - self.exits.len()
    }

    /// Ends the group with all its descendants, and returns as soon as nothing is left.
    ///
    /// Call it also when all workers have ended by themselves: they may have left daemons, and the rest of their output is
    /// written here. A caller that drops this future (on a second signal, say) calls again with less grace.
    pub async fn end(&mut self, ladder: Ladder) -> Termination {
        // Workers that have ended until here ended by themselves.
        self.collect();
        self.is_ending = true;
        let termination = self.processes.end_all(ladder).await;
        self.collect();
        self.add_printed_failures();
        termination
    }

    /// Completes the exits of failed workers without an error file by what they printed. All output has been read by then.
    fn add_printed_failures(&mut self) {
        for exit in &mut self.exits {
            let worker = self.workers.get(&ProcessKey(exit.local_rank.0));
            // An exception before a signal was handled.
            let (Some(worker), ExitOutcome::Code(1..)) = (worker, exit.outcome) else { continue };
            if exit.error.is_some() {
                continue;
            }
            if let Some(log) = &worker.redirected_log {
                log.search(&worker.watch, exit.at);
            }
            exit.last_line = worker.watch.last_line();
            let Some(failure) = worker.watch.failure() else { continue };
            let (message, traceback) = match &failure.cause {
                PrintedCause::Exception(traceback) => (traceback.exception.clone(), Some(traceback.text())),
                PrintedCause::Worker { .. } => (failure.cause.summary(), None),
            };
            let report = ErrorReport { message, traceback, at: Some(failure.at), error_code: None };
            if !exit.during_shutdown {
                write_report(&report, &exit.error_file);
            }
            exit.error = Some(report);
        }
    }

    /// Notes new exits.
    fn collect(&mut self) {
        while let Some(exit) = self.processes.take_exit() {
            self.note(exit);
        }
    }

    /// Notes an exit with the worker's error file. For a failed worker without one, writes it.
    fn note(&mut self, exit: ProcessExit) {
        // Every key belongs to a worker.
        let Some(worker) = self.workers.get(&exit.key) else { return };
        let failed = !exit.outcome.is_success();
        let exit = WorkerExit {
            local_rank: worker.local_rank,
            rank: worker.rank,
            pid: exit.pid,
            outcome: exit.outcome,
            at: exit.at,
            during_shutdown: self.is_ending,
            error_file: worker.error_file.clone(),
            error: failed.then(|| ErrorReport::read(&worker.error_file)).flatten(),
            last_line: None,
            is_python: worker.is_python,
        };
        if failed && !exit.during_shutdown && exit.error.is_none() {
            write_report(&ErrorReport::of_exit(&exit), &exit.error_file);
        }
        self.exits.push(exit);
    }
}

fn write_report(report: &ErrorReport, path: &Path) {
    if let Err(error) = report.write(path) {
        tracing::warn!(path = %path.display(), %error, "cannot write an error file");
    }
}

/// Whether a program is a Python interpreter, or an executable Python script.
fn is_python(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    name.starts_with("python") || name.ends_with(".py")
}
