//! The worker processes of one node, for one round: [`WorkerGroup`] starts them together and ends them together.
//!
//! The flow: [`LogOptions`] open a run's folder, a round takes an attempt in it, [`WorkerGroup::start`] starts one
//! process per [`WorkerSpec`], exits come out of [`WorkerGroup::next_exit`], [`WorkerGroup::end`] leaves nothing behind,
//! and [`FailureReport`] says what went wrong first. What is torchrun's is here: ranks, environment, error files, log
//! folders. How a process is started, watched and ended is [`crate::processes`]' concern; whether to restart, with
//! whom and how often is decided elsewhere.

mod environment;
mod error_file;
mod exit;
mod group;
mod logs;
mod root_cause;
mod shim;
mod worker;

pub use crate::processes::{EnvironmentChanges, Ladder, Outcome, Shim};
pub use environment::{WorkerEnvironment, WorkerWorld};
pub use error_file::{ERROR_FILE_VARIABLE, ErrorReport, propagate};
pub use exit::WorkerExit;
pub use group::{StartError, WorkerGroup};
pub use logs::{AttemptLogs, LinePrefix, LogError, LogFolder, LogOptions, RunLogs, StreamChoice, Streams};
pub use root_cause::{Failure, FailureReport, FirstFailure, command_line, printable, root_cause};
pub use shim::exec_shim;
pub use worker::{GlobalRank, LocalRank, WorkerSpec};
