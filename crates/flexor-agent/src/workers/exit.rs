//! How a worker ended.

use std::path::PathBuf;

use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::error_file::ErrorReport;
use super::worker::{GlobalRank, LocalRank};
use crate::processes::Outcome;

const KILL: i32 = Signal::SIGKILL as i32;

/// A worker that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerExit {
    /// Which worker of the node.
    pub local_rank: LocalRank,
    /// Which worker of the world that it was last in, if it was in any.
    pub rank: Option<GlobalRank>,
    /// The process id that it had.
    pub pid: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// When its end was noticed.
    pub at: Timestamp,
    /// Whether the launcher had begun to end the group by then. Its own doing or not, this end surprised nobody.
    pub ended: bool,
    /// Where it was told to write its error.
    pub error_file: PathBuf,
    /// What it wrote there.
    pub error: Option<ErrorReport>,
    /// Whether its program is Python's, as far as its name tells.
    pub is_python: bool,
}

impl WorkerExit {
    /// What went wrong: the worker's own words where it left any, else what is known from its end.
    pub fn message(&self) -> String {
        let outcome = self.outcome;
        match (&self.error, outcome) {
            (Some(report), _) => report.message.clone(),
            (None, _) if self.ended => format!("{outcome}, after the launcher began to end the group"),
            (None, Outcome::Signal(KILL)) => {
                format!("{outcome}; if nobody sent it, the kernel's log tells whether memory ran out")
            }
            (None, Outcome::Signal(_)) => format!("{outcome}; its last lines of output may tell why"),
            (None, Outcome::Code(_)) => {
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
