//! The input and output of the test launcher (`tests/programs/launcher.rs`), as JSON.

use std::path::PathBuf;
use std::time::Duration;

use flexor_agent::workers::{FailureReport, WorkerExit};
use serde::{Deserialize, Serialize};

/// One run of the launcher.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Scenario {
    /// The command of each worker.
    pub(crate) workers: Vec<Vec<String>>,
    /// Number of groups that are started one after the other.
    pub(crate) attempts: u32,
    /// Whether the first failure ends the group, as in `flexor launch`.
    pub(crate) ends_on_failure: bool,
    pub(crate) grace_ms: u64,
    /// Whether the group is dropped and not ended.
    pub(crate) drops_the_group: bool,
    pub(crate) log_dir: PathBuf,
    pub(crate) redirects: String,
    pub(crate) tee: String,
    pub(crate) shown: Option<Vec<u32>>,
    pub(crate) prefix: Option<String>,
    /// The launcher's own error file.
    pub(crate) error_file: Option<PathBuf>,
}

/// The result of the last group.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LaunchResult {
    /// Why the group was not started.
    pub(crate) refused: Option<String>,
    pub(crate) exits: Vec<WorkerExit>,
    pub(crate) termination: Termination,
    pub(crate) report: Option<FailureReport>,
    /// How much the launcher's memory grew at most while the workers ran.
    pub(crate) grown_kib: u64,
}

/// How the group ended, with process ids.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Termination {
    pub(crate) took: Duration,
    pub(crate) killed: Vec<i32>,
    pub(crate) left: Vec<i32>,
}
