//! The worker processes of one node: a [`WorkerGroup`] starts them together and ends them together.
//!
//! [`LogOptions`] open a run's folder; each start takes an attempt in it. [`WorkerGroup::start`] starts one process per
//! [`WorkerSpec`]. Exits come out of [`WorkerGroup::next_exit`]; [`WorkerGroup::end`] leaves nothing behind;
//! [`FailureReport`] names the first failure. Here is what torchrun defines: ranks, environment, error files, log folders.
//! [`crate::processes`] starts, watches and ends processes. [`crate::launch`] decides about restarts.

mod environment;
mod error_file;
mod group;
mod left_error;
mod logs;
mod redirected_log;
mod root_cause;
mod shim;
mod worker;
mod worker_exit;

pub use crate::processes::{EnvironmentChanges, ExitOutcome, Ladder, Shim};
pub use environment::{WorkerEnvironment, WorkerWorld};
pub use error_file::{ERROR_FILE_VARIABLE, ErrorReport, propagate};
pub use group::{GroupStartError, WorkerGroup};
pub use left_error::LeftError;
pub use logs::{AttemptLogs, LinePrefix, LogError, LogFolder, LogOptions, RunLogs, StreamChoice, Streams};
pub use root_cause::{FailureReport, FirstFailure, WorkerFailure, command_line, printable, root_cause};
pub use shim::exec_shim;
pub use worker::{GlobalRank, LocalRank, WorkerSpec};
pub use worker_exit::WorkerExit;
