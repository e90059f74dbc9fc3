//! The group: the workers of this node in one round, started together and ended together.
//!
//! One task owns it. [`WorkerGroup::next_exit`] gives out exits in the order in which they were seen;
//! [`WorkerGroup::end`] takes everything down that the workers have left behind. A group that is dropped without that
//! kills what is left and waits for nobody. What is known of processes, and not of workers, is in
//! [`crate::processes`].

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::error_file::{ERROR_FILE_VARIABLE, ErrorReport};
use super::exit::WorkerExit;
use super::logs::{AttemptLogs, LogError};
use super::root_cause::{self, FirstFailure};
use super::worker::{GlobalRank, LocalRank, WorkerSpec};
use crate::processes::{
    self, Ending, Environment, Ladder, ProcessExit, ProcessKey, Processes, Program, ProgramError, Shim, find_program,
};

/// Why a group was not started. None of its workers is left running then.
#[derive(Debug, Error)]
pub enum StartError {
    /// There is no such program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Its output has nowhere to go.
    #[error(transparent)]
    Logs(#[from] LogError),
    /// The system would not.
    #[error("cannot start the worker of local rank {local_rank}: {cause}")]
    Process {
        /// Which worker.
        local_rank: LocalRank,
        /// Why.
        cause: processes::StartError,
    },
    /// The system would not let us watch processes.
    #[error(
        "cannot watch child processes: {0}; is /proc mounted, and does the kernel keep lists of children in it \
         (CONFIG_PROC_CHILDREN)?"
    )]
    Watch(io::Error),
}

impl StartError {
    /// Whether it is the program that cannot be started, and not the machine that will not.
    pub fn is_of_the_program(&self) -> bool {
        match self {
            StartError::Program(_) => true,
            StartError::Process { cause, .. } => matches!(cause, processes::StartError::Program(_)),
            StartError::Logs(_) | StartError::Watch(_) => false,
        }
    }
}

/// The workers of this node.
pub struct WorkerGroup {
    processes: Processes,
    workers: BTreeMap<ProcessKey, Worker>,
    /// In the order in which they were seen; the first `told` have been given out.
    exits: Vec<WorkerExit>,
    told: usize,
    /// Whether the launcher has begun to end the group.
    ending: bool,
}

struct Worker {
    local_rank: LocalRank,
    rank: Option<GlobalRank>,
    error_file: PathBuf,
    is_python: bool,
}

impl WorkerGroup {
    /// Starts one process per spec, each in a session of its own, with the files of `logs`.
    ///
    /// Every program is looked for before the first is started. To be called on a tokio runtime, from a thread that
    /// lives as long as the workers shall, as with [`Processes::start`].
    ///
    /// # Errors
    ///
    /// A program, a log file or a process cannot be had; nothing stays behind.
    pub fn start(shim: &Shim, specs: &[WorkerSpec], logs: &AttemptLogs) -> Result<Self, StartError> {
        for spec in specs {
            let path = spec.environment.resolve("PATH", env::var_os("PATH"));
            find_program(&spec.program, path.as_deref(), None)?;
        }
        let mut group = Self {
            processes: Processes::new(shim.clone()).map_err(StartError::Watch)?,
            workers: BTreeMap::new(),
            exits: Vec::with_capacity(specs.len()),
            told: 0,
            ending: false,
        };
        for spec in specs {
            let (local_rank, rank) = (spec.local_rank, spec.rank);
            logs.prepare(local_rank)?;
            let error_file = logs.error_file(local_rank);
            let mut environment = spec.environment.clone();
            environment.set(ERROR_FILE_VARIABLE, &error_file);
            let program = Program {
                environment: Environment::Inherited(environment),
                stdout: logs.stdout(spec)?,
                stderr: logs.stderr(spec)?,
                ..Program::new(&spec.program, &spec.args)
            };
            let key = ProcessKey(local_rank.0);
            let started = group.processes.start(key, program);
            started.map_err(|cause| StartError::Process { local_rank, cause })?;
            group.workers.insert(key, Worker { local_rank, rank, error_file, is_python: is_python(&spec.program) });
        }
        Ok(group)
    }

    /// The next worker that ended; `None` when all have. Giving up this wait loses nothing.
    pub async fn next_exit(&mut self) -> Option<WorkerExit> {
        self.collect();
        if self.told == self.exits.len() {
            let exit = self.processes.next_exit().await?;
            self.note(exit);
        }
        let exit = self.exits.get(self.told).cloned();
        self.told += 1;
        exit
    }

    /// All workers that have ended, in the order in which it was seen.
    pub fn exits(&self) -> &[WorkerExit] {
        &self.exits
    }

    /// The first worker in which the program failed, as far as is known before all have ended: one that has failed, or
    /// one that has left a report before that and is about to end.
    pub fn first_failure(&mut self) -> Option<FirstFailure> {
        self.collect();
        let has_ended = |local: LocalRank| self.exits.iter().any(|exit| exit.local_rank == local);
        let running = self.workers.values().filter(|worker| !has_ended(worker.local_rank));
        let reports = running.filter_map(|worker| Some((worker.local_rank, ErrorReport::read(&worker.error_file)?)));
        root_cause::first_failure(&self.exits, reports)
    }

    /// The workers have gone on into another world, the first of them with this rank.
    pub fn set_ranks(&mut self, first: GlobalRank) {
        for worker in self.workers.values_mut() {
            worker.rank = Some(GlobalRank(first.0 + worker.local_rank.0));
        }
    }

    /// How many workers have not ended, as far as was seen.
    pub fn running(&self) -> usize {
        self.workers.len() - self.exits.len()
    }

    /// Ends whatever is left of the group, and comes back as soon as nothing is.
    ///
    /// Also to be called when all workers have ended by themselves: they may have left daemons, and the last of their
    /// output is written here. A caller that gives up this wait (on a second signal, say) calls again with less grace.
    pub async fn end(&mut self, ladder: Ladder) -> Ending {
        // What ended until here ended by itself.
        self.collect();
        self.ending = true;
        let ending = self.processes.end_all(ladder).await;
        self.collect();
        ending
    }

    /// Notes the exits that are there.
    fn collect(&mut self) {
        while let Some(exit) = self.processes.take_exit() {
            self.note(exit);
        }
    }

    /// Notes an end with the worker's own words, and leaves a report in their place where there are none.
    fn note(&mut self, exit: ProcessExit) {
        // Nothing else is started here.
        let Some(worker) = self.workers.get(&exit.key) else { return };
        let failed = !exit.outcome.is_success();
        let exit = WorkerExit {
            local_rank: worker.local_rank,
            rank: worker.rank,
            pid: exit.pid,
            outcome: exit.outcome,
            at: exit.at,
            ended: self.ending,
            error_file: worker.error_file.clone(),
            error: failed.then(|| ErrorReport::read(&worker.error_file)).flatten(),
            is_python: worker.is_python,
        };
        if failed
            && !exit.ended
            && exit.error.is_none()
            && let Err(error) = ErrorReport::of_exit(&exit).write(&exit.error_file)
        {
            tracing::warn!(path = %exit.error_file.display(), %error, "cannot write an error file");
        }
        self.exits.push(exit);
    }
}

/// Whether a program is an interpreter of Python, or a script of it that is executed itself.
fn is_python(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    name.starts_with("python") || name.ends_with(".py")
}
