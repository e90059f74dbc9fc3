//! The root cause: which of several failures came first, and how it is shown.
//!
//! When one worker fails, others follow: their peers are gone, or the launcher ends them. The first failure is the one to
//! read. It is the earliest, by the time in the worker's error report, else by the time when its exit was seen. Exits that
//! were requested (by SIGTERM, or by the launcher) and left no report come after all others, because the request had
//! another cause. Failures of other nodes are not known here.

mod table;

use std::ffi::{OsStr, OsString};
use std::iter;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::error_file::ErrorReport;
use super::worker::{GlobalRank, LocalRank};
use super::worker_exit::WorkerExit;
use crate::processes::{ExitOutcome, Traceback};

pub use table::printable;

const TERM: i32 = Signal::SIGTERM as i32;
const KILL: i32 = Signal::SIGKILL as i32;

/// The failures on this node. Printed, it is the table at the end of a failed run; as JSON, the same for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureReport {
    /// The command that the workers ran.
    pub command: String,
    /// The name of this machine.
    pub host: String,
    /// Number of workers of the group.
    pub workers: usize,
    pub root_cause: WorkerFailure,
    /// The others, in the order in which they happened.
    pub others: Vec<WorkerFailure>,
}

/// One failed worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerFailure {
    pub time: Timestamp,
    /// Its rank in the last world that it was in, if it was in any.
    pub rank: Option<GlobalRank>,
    pub local_rank: LocalRank,
    pub pid: u32,
    /// The exit code, or the negative number of the signal.
    pub exit_code: i32,
    /// The name of the signal that ended it.
    pub signal: Option<String>,
    /// Whether it ended after the launcher had begun to end the group.
    pub ended_by_launcher: bool,
    pub error_file: Option<PathBuf>,
    /// The message of its error file; without one, a description of the exit.
    pub message: String,
    pub traceback: Option<String>,
}

impl FailureReport {
    /// The report of a group of `workers` that ran `command`; `None` if no worker failed.
    pub fn new(command: String, host: String, workers: usize, exits: &[WorkerExit]) -> Option<Self> {
        let mut failed: Vec<_> = exits.iter().filter(|exit| !exit.outcome.is_success()).collect();
        failed.sort_by_key(|exit| order(exit));
        let mut failures = failed.into_iter().map(WorkerFailure::of);
        let root_cause = failures.next()?;
        Some(Self { command, host, workers, root_cause, others: failures.collect() })
    }
}

/// The worker in which the program failed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstFailure {
    pub local_rank: LocalRank,
    /// Whether SIGKILL ended it: the program need not be at fault.
    pub was_killed: bool,
}

/// The first failure among workers that have ended, and running workers that have written a report.
pub(super) fn first_failure(
    exits: &[WorkerExit],
    reports: impl Iterator<Item = (LocalRank, ErrorReport)>,
) -> Option<FirstFailure> {
    let root = root_cause(exits)?;
    let earlier = reports.filter_map(|(local_rank, report)| Some((false, reported(&report)?, local_rank)));
    let earliest = earlier.min().filter(|report| *report < order(root));
    let of_exit = FirstFailure { local_rank: root.local_rank, was_killed: root.outcome == ExitOutcome::Signal(KILL) };
    Some(earliest.map_or(of_exit, |(_, _, local_rank)| FirstFailure { local_rank, was_killed: false }))
}

/// The exit that is the root cause of a failed group; `None` if no worker failed.
pub fn root_cause(exits: &[WorkerExit]) -> Option<&WorkerExit> {
    let failed = exits.iter().filter(|exit| !exit.outcome.is_success());
    failed.min_by_key(|exit| order(exit))
}

/// A command as one line, quoted for a shell.
pub fn command_line(program: &OsStr, args: &[OsString]) -> String {
    iter::once(program).chain(args.iter().map(OsString::as_os_str)).map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |letter: char| letter.is_alphanumeric() || "-_./:=,+@%^~".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Sort key of failures: the smallest is the root cause.
///
/// The kernel stamps files with a clock that ticks every few milliseconds, rounded down, and an exit is seen a little late.
/// So a report that seems slightly older than an exit may have followed it.
fn order(exit: &WorkerExit) -> (bool, Timestamp, LocalRank) {
    (was_requested(exit), exit.error.as_ref().and_then(reported).unwrap_or(exit.at), exit.local_rank)
}

fn reported(report: &ErrorReport) -> Option<Timestamp> {
    const CLOCK_TICK: SignedDuration = SignedDuration::from_millis(10);
    report.at?.checked_add(CLOCK_TICK).ok()
}

/// Whether the exit was requested. A report shows another cause.
fn was_requested(exit: &WorkerExit) -> bool {
    exit.error.is_none() && (exit.during_shutdown || exit.outcome == ExitOutcome::Signal(TERM))
}

/// When a worker failed: a program may take a while from its error to its exit.
fn time_of(exit: &WorkerExit) -> Timestamp {
    exit.error.as_ref().and_then(|report| report.at).unwrap_or(exit.at)
}

impl WorkerFailure {
    /// On one line: where the program failed, and why.
    pub fn summary(&self) -> String {
        let traceback = self.traceback.as_deref().and_then(Traceback::last_in);
        let message = self.message.lines().next().unwrap_or_default();
        let why = traceback.map_or_else(|| message.to_owned(), |traceback| traceback.located(message));
        format!("{}: {}", self.location(), printable(&why))
    }

    fn of(exit: &WorkerExit) -> Self {
        Self {
            time: time_of(exit),
            rank: exit.rank,
            local_rank: exit.local_rank,
            pid: exit.pid,
            exit_code: exit.outcome.number(),
            signal: exit.outcome.signal_name().map(str::to_owned),
            ended_by_launcher: exit.during_shutdown,
            error_file: exit.error_file.is_file().then(|| exit.error_file.clone()),
            message: exit.message(),
            traceback: exit.error.as_ref().and_then(|report| report.traceback.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
