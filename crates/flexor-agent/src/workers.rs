//! The worker processes of one node, for one round: [`WorkerGroup`] starts them together and ends them together.
//!
//! The flow: [`LogOptions`] open a run's folder, a round takes an attempt in it, [`WorkerGroup::start`] starts one
//! process per [`WorkerSpec`], exits come out of [`WorkerGroup::next_exit`], [`WorkerGroup::end`] walks down the signal
//! ladder until no descendant is left, and [`FailureReport`] says what went wrong first. Whether to restart, with whom
//! and how often is decided elsewhere.

mod ending;
mod environment;
mod error_file;
mod exit;
mod group;
mod logs;
mod process_tree;
mod program;
mod reaper;
mod root_cause;
mod shim;
mod worker;

pub use ending::{Ending, Ladder};
pub use environment::{EnvironmentChanges, WorkerEnvironment};
pub use error_file::{ERROR_FILE_VARIABLE, ErrorReport, propagate};
pub use exit::{Outcome, WorkerExit};
pub use group::{StartError, WorkerGroup};
pub use logs::{
    AttemptLogs, LinePrefix, LogError, LogFolder, LogOptions, RunLogs, StreamChoice, StreamChoiceError, Streams,
};
pub use process_tree::Process;
pub use program::{ProgramError, find_program};
pub use root_cause::{Failure, FailureReport, command_line, root_cause};
pub use shim::{Shim, exec_shim};
pub use worker::{GlobalRank, LocalRank, WorkerSpec};
