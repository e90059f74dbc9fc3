//! The group: the workers of this node in one round, started together and ended together.
//!
//! One task owns it. [`WorkerGroup::next_exit`] gives out exits in the order in which they were seen;
//! [`WorkerGroup::end`] (in [`super::ending`]) takes everything down that the workers have left behind. A group that
//! is dropped without that kills what is left and waits for nobody.

use std::env;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use thiserror::Error;

use super::error_file::{ERROR_FILE_VARIABLE, ErrorReport};
use super::exit::{Outcome, WorkerExit};
use super::logs::{AttemptLogs, LogError, Pumps};
use super::process_tree::{Bystanders, Process};
use super::program::{ProgramError, find_program};
use super::reaper::Reaper;
use super::shim::Shim;
use super::worker::{GlobalRank, LocalRank, WorkerSpec};

/// Why a group was not started. None of its workers is left running then.
#[derive(Debug, Error)]
pub enum StartError {
    /// There is no such program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Its output has nowhere to go.
    #[error(transparent)]
    Logs(#[from] LogError),
    /// The last group has not been dropped.
    #[error("this process already has a group of workers; end and drop it before the next is started")]
    NotAlone,
    /// The system would not.
    #[error("cannot start the worker of local rank {local_rank}: {source}; check the limit of processes (ulimit -u)")]
    Spawn {
        /// Which worker.
        local_rank: LocalRank,
        /// What the system said.
        source: io::Error,
    },
    /// The system would not let us watch processes.
    #[error("cannot watch child processes: {0}; is /proc mounted?")]
    Watch(#[source] io::Error),
}

/// The workers of this node.
pub struct WorkerGroup {
    workers: Vec<Worker>,
    /// In the order in which they were seen; the first `told` have been given out.
    exits: Vec<WorkerExit>,
    told: usize,
    pub(super) reaper: Reaper,
    pub(super) pumps: Pumps,
    bystanders: Bystanders,
    /// Whether the launcher has begun to end the group.
    pub(super) ending: bool,
    /// Whether no process of the group is left.
    pub(super) gone: bool,
    _alone: Alone,
}

struct Worker {
    local_rank: LocalRank,
    rank: GlobalRank,
    pid: u32,
    error_file: PathBuf,
    running: bool,
}

impl WorkerGroup {
    /// Starts one process per spec, each in a session of its own, with the files of `logs`.
    ///
    /// Every program is looked for before the first is started. To be called on a tokio runtime, from a thread that
    /// lives as long as the workers shall: the kernel ends them when the *thread* that started them ends. On a
    /// current-thread runtime that is the thread that waits for everything anyway.
    ///
    /// # Errors
    ///
    /// A program, a log file or a process cannot be had; nothing stays behind.
    pub fn start(shim: &Shim, specs: &[WorkerSpec], logs: &AttemptLogs) -> Result<Self, StartError> {
        let find = |spec: &WorkerSpec| {
            let path = spec.environment.resolve("PATH", env::var_os("PATH"));
            find_program(&spec.program, path.as_deref())
        };
        let programs = specs.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let alone = Alone::claim().ok_or(StartError::NotAlone)?;
        let mut group = Self {
            workers: Vec::with_capacity(specs.len()),
            exits: Vec::with_capacity(specs.len()),
            told: 0,
            bystanders: Bystanders::of_now().map_err(StartError::Watch)?,
            reaper: Reaper::new().map_err(StartError::Watch)?,
            pumps: Pumps::default(),
            ending: false,
            gone: false,
            _alone: alone,
        };
        let mut tees = Vec::new();
        for (spec, program) in specs.iter().zip(&programs) {
            let mut command = shim.command(program, spec);
            let error_file = logs.attach(spec, &mut command, &mut tees)?;
            command.env(ERROR_FILE_VARIABLE, &error_file);
            let child = command.spawn().map_err(|source| StartError::Spawn { local_rank: spec.local_rank, source })?;
            let (local_rank, rank, pid) = (spec.local_rank, spec.rank, child.id());
            group.workers.push(Worker { local_rank, rank, pid, error_file, running: true });
        }
        group.pumps = Pumps::start(tees).map_err(LogError::Tee)?;
        Ok(group)
    }

    /// The next worker that ended; `None` when all have. Giving up this wait loses nothing.
    pub async fn next_exit(&mut self) -> Option<WorkerExit> {
        loop {
            self.collect();
            if let Some(exit) = self.exits.get(self.told) {
                self.told += 1;
                return Some(exit.clone());
            }
            if self.running() == 0 {
                return None;
            }
            self.reaper.changed().await;
        }
    }

    /// All workers that have ended, in the order in which it was seen.
    pub fn exits(&self) -> &[WorkerExit] {
        &self.exits
    }

    /// How many workers have not ended, as far as was seen.
    pub fn running(&self) -> usize {
        self.workers.iter().filter(|worker| worker.running).count()
    }

    /// The process ids of all workers, those that have ended included.
    pub fn pids(&self) -> impl Iterator<Item = (LocalRank, u32)> {
        self.workers.iter().map(|worker| (worker.local_rank, worker.pid))
    }

    /// Notes the exits that are there, and whether anything of the group is left.
    pub(super) fn collect(&mut self) {
        // Before the exits are taken: what other workers make of them comes after.
        let now = Timestamp::now();
        let reaped = self.reaper.reap();
        for (pid, outcome) in reaped.exits {
            // Any other is an orphan of a worker's; that it was waited for is all it needs.
            if let Some(worker) = self.workers.iter_mut().find(|worker| worker.running && worker.pid == pid) {
                worker.running = false;
                self.exits.push(note(worker, outcome, now, self.ending));
            }
        }
        self.gone = reaped.none_left || !self.bystanders.is_empty() && self.living().is_empty();
    }

    /// Whether a process is one of those that were started here.
    pub(super) fn has_worker(&self, process: &Process) -> bool {
        self.workers.iter().any(|worker| i32::try_from(worker.pid) == Ok(process.pid))
    }

    /// The processes of the group: workers and whatever descends from them.
    pub(super) fn living(&self) -> Vec<Process> {
        // Without /proc no group would have been started.
        self.bystanders.others().unwrap_or_default()
    }
}

impl Drop for WorkerGroup {
    fn drop(&mut self) {
        if !self.gone {
            for process in self.living() {
                // It may have ended meanwhile, which is what is wanted.
                _ = kill(process.id(), Signal::SIGKILL);
            }
        }
    }
}

/// What is to be known of an end, with the worker's own words, and a report in their place where there are none.
fn note(worker: &Worker, outcome: Outcome, at: Timestamp, ended: bool) -> WorkerExit {
    let failed = !outcome.is_success();
    let exit = WorkerExit {
        local_rank: worker.local_rank,
        rank: worker.rank,
        pid: worker.pid,
        outcome,
        at,
        ended,
        error_file: worker.error_file.clone(),
        error: failed.then(|| ErrorReport::read(&worker.error_file)).flatten(),
    };
    if failed
        && !ended
        && exit.error.is_none()
        && let Err(error) = ErrorReport::of_exit(&exit).write(&exit.error_file)
    {
        tracing::warn!(path = %exit.error_file.display(), %error, "cannot write an error file");
    }
    exit
}

/// Held by the one group that a process may have: it waits for all children, and two would take each other's.
struct Alone;

static TAKEN: AtomicBool = AtomicBool::new(false);

impl Alone {
    fn claim() -> Option<Self> {
        (!TAKEN.swap(true, Ordering::AcqRel)).then_some(Self)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_group_at_a_time() {
        let first = Alone::claim();
        assert!(first.is_some());
        assert!(Alone::claim().is_none());
        drop(first);
        assert!(Alone::claim().is_some());
    }
}
