//! Exit codes, the same for every command. Misuse of the command line is 2 and comes from clap.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Ok,
    /// The job or the input failed.
    Failed,
    /// Something around it failed: a file system, a network, a cluster.
    Infrastructure,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Infrastructure => 3,
        })
    }
}
