//! The exit of a worker.

use std::path::PathBuf;

use flexor_model::is_usage_error;
use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::error_file::ErrorReport;
use super::worker::{GlobalRank, LocalRank};
use crate::processes::ExitOutcome;

const KILL: i32 = Signal::SIGKILL as i32;

/// A worker that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerExit {
    pub local_rank: LocalRank,
    /// Its rank in the last world that it was in, if it was in any.
    pub rank: Option<GlobalRank>,
    pub pid: u32,
    pub outcome: ExitOutcome,
    /// When the exit was seen.
    pub at: Timestamp,
    /// Whether the launcher had begun to end the group by then. Such an exit is expected, whatever its cause.
    pub during_shutdown: bool,
    /// The path in its `TORCHELASTIC_ERROR_FILE`.
    pub error_file: PathBuf,
    /// The content of its error file.
    pub error: Option<ErrorReport>,
    /// The last line of its standard error, where the launcher reads it.
    pub last_line: Option<String>,
    /// Whether the name of its program is that of a Python interpreter or script.
    pub is_python: bool,
}

impl WorkerExit {
    /// Whether another start would end the same way: the program refused its command line, or could not be executed.
    pub fn is_final(&self) -> bool {
        match self.outcome {
            ExitOutcome::Code(126 | 127) => true,
            ExitOutcome::Code(2) => self.last_line.as_deref().is_some_and(is_usage_error),
            ExitOutcome::Code(_) | ExitOutcome::Signal(_) => false,
        }
    }

    /// The message of the worker's error file; without one, a description of the exit.
    pub fn message(&self) -> String {
        let outcome = self.outcome;
        match (&self.error, outcome) {
            (Some(report), _) => report.message.clone(),
            (None, _) if self.during_shutdown => format!("{outcome}, after the launcher began to end the group"),
            (None, ExitOutcome::Signal(KILL)) => {
                format!("{outcome}; if nobody sent it, the kernel's log tells whether memory ran out")
            }
            (None, ExitOutcome::Signal(_)) => format!("{outcome}; its last lines of output may tell why"),
            (None, ExitOutcome::Code(_)) => {
                if let Some(line) = &self.last_line {
                    return format!("{outcome}; {line}");
                }
                let next_time = if self.is_python {
                    "torch's @record around its main function puts the traceback here"
                } else {
                    "what it writes to $TORCHELASTIC_ERROR_FILE stands here"
                };
                format!("{outcome}, and it left no report; its last lines of output may tell why, and {next_time}")
            }
        }
    }
}
