//! Which of several failures came first, and how people are told.
//!
//! When one worker fails, others follow: their peers are gone, or the launcher ends them. The first failure is the one
//! to read. It is the earliest, by the time in the worker's error report or else by when its end was seen; ends that
//! somebody asked for (by SIGTERM, or by the launcher) and that left no report stand behind all others, because
//! whoever asked had a reason. Failures of other nodes are not known here.

mod table;

use std::ffi::{OsStr, OsString};
use std::iter;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::error_file::ErrorReport;
use super::exit::WorkerExit;
use super::worker::{GlobalRank, LocalRank};
use crate::processes::Outcome;

pub use table::printable;

const TERM: i32 = Signal::SIGTERM as i32;
const KILL: i32 = Signal::SIGKILL as i32;

/// What went wrong on this node. Printed, it is the table at the end of a failed run; as JSON, the same for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureReport {
    /// The command that the workers ran.
    pub command: String,
    /// The name of this machine.
    pub host: String,
    /// How many workers the group had.
    pub workers: usize,
    /// The first failure.
    pub root_cause: Failure,
    /// The others, in the order in which they happened.
    pub others: Vec<Failure>,
}

/// One failed worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// When it failed.
    pub time: Timestamp,
    /// Its rank in the world that it was last in, if it was in any.
    pub rank: Option<GlobalRank>,
    /// Its rank on this node.
    pub local_rank: LocalRank,
    /// The process id that it had.
    pub pid: u32,
    /// The exit code, or the signal's number below zero.
    pub exit_code: i32,
    /// The name of the signal that ended it.
    pub signal: Option<String>,
    /// Whether it ended after the launcher had begun to end the group.
    pub ended_by_launcher: bool,
    /// Where its error report is.
    pub error_file: Option<PathBuf>,
    /// What went wrong, in the worker's own words where it left any.
    pub message: String,
    /// The traceback that it left.
    pub traceback: Option<String>,
}

impl FailureReport {
    /// The report of a group of `workers` that ran `command`; `None` where no worker failed.
    pub fn new(command: String, host: String, workers: usize, exits: &[WorkerExit]) -> Option<Self> {
        let mut failed: Vec<_> = exits.iter().filter(|exit| !exit.outcome.is_success()).collect();
        failed.sort_by_key(|exit| order(exit));
        let mut failures = failed.into_iter().map(Failure::of);
        let root_cause = failures.next()?;
        Some(Self { command, host, workers, root_cause, others: failures.collect() })
    }
}

/// The worker in which the program failed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstFailure {
    /// Which worker of the node.
    pub local_rank: LocalRank,
    /// Whether it was killed: nothing that it did need be to blame.
    pub was_killed: bool,
}

/// The first failure among workers that have ended, and others that run and have left a report.
pub(super) fn first_failure(
    exits: &[WorkerExit],
    reports: impl Iterator<Item = (LocalRank, ErrorReport)>,
) -> Option<FirstFailure> {
    let root = root_cause(exits)?;
    let earlier = reports.filter_map(|(local_rank, report)| Some((false, reported(&report)?, local_rank)));
    let earliest = earlier.min().filter(|report| *report < order(root));
    let of_exit = FirstFailure { local_rank: root.local_rank, was_killed: root.outcome == Outcome::Signal(KILL) };
    Some(earliest.map_or(of_exit, |(_, _, local_rank)| FirstFailure { local_rank, was_killed: false }))
}

/// The exit that is the root cause of a failed group; `None` where no worker failed.
pub fn root_cause(exits: &[WorkerExit]) -> Option<&WorkerExit> {
    let failed = exits.iter().filter(|exit| !exit.outcome.is_success());
    failed.min_by_key(|exit| order(exit))
}

/// A command as one line, words that a shell would take apart in quotes.
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

/// The least is the cause.
///
/// Files are stamped with a clock that ticks every few milliseconds, backwards to its last tick, and an end is seen a
/// little late: a report that seems to be a moment older than an end may well have followed it.
fn order(exit: &WorkerExit) -> (bool, Timestamp, LocalRank) {
    (was_asked(exit), exit.error.as_ref().and_then(reported).unwrap_or(exit.at), exit.local_rank)
}

fn reported(report: &ErrorReport) -> Option<Timestamp> {
    const GRAIN: SignedDuration = SignedDuration::from_millis(10);
    report.at?.checked_add(GRAIN).ok()
}

/// Whether somebody asked for this end. A report says that there was more to it.
fn was_asked(exit: &WorkerExit) -> bool {
    exit.error.is_none() && (exit.ended || exit.outcome == Outcome::Signal(TERM))
}

/// When it failed: a program may take a while from its error to its end.
fn moment(exit: &WorkerExit) -> Timestamp {
    exit.error.as_ref().and_then(|report| report.at).unwrap_or(exit.at)
}

impl Failure {
    fn of(exit: &WorkerExit) -> Self {
        Self {
            time: moment(exit),
            rank: exit.rank,
            local_rank: exit.local_rank,
            pid: exit.pid,
            exit_code: exit.outcome.number(),
            signal: exit.outcome.signal_name().map(str::to_owned),
            ended_by_launcher: exit.ended,
            error_file: exit.error_file.is_file().then(|| exit.error_file.clone()),
            message: exit.message(),
            traceback: exit.error.as_ref().and_then(|report| report.traceback.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
