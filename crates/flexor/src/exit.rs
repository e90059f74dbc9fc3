//! Exit codes, the same for every command.

use std::process::ExitCode;

/// The exit codes for `--help`.
pub const HELP: &str = "\
Exit codes:
  0    success
  1    failure: a job failed, or an input was refused or could not be read
  2    wrong usage
  3    infrastructure: a network or a cluster failed, or the output could not be written
  78   flexor worker, flexor ps: the arguments cannot work, and a restart would not help
  126  flexor launch: the program may not be executed
  127  flexor launch: there is no such program
  130  interrupted";

/// A refused or unreadable input, as opposed to a failure of the infrastructure.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Refused(pub anyhow::Error);

/// A wrong argument that clap cannot detect.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Misused(pub anyhow::Error);

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// The job failed, or the input was refused or could not be read.
    Failure,
    /// The command line is wrong. clap's own errors exit directly.
    Usage,
    /// A network, a cluster or the output failed.
    Infrastructure,
    /// The arguments of a job's process cannot work, so its pod must not be restarted.
    Hopeless,
    /// The program of a launch cannot be started, with the exit code that a shell has for it.
    NotStarted(u8),
    /// Ctrl-C ended the command.
    Interrupted,
}

impl Exit {
    /// The exit for an error: infrastructure, unless its type says otherwise.
    pub fn of(error: &anyhow::Error) -> Self {
        match (error.is::<Refused>(), error.is::<Misused>()) {
            (true, _) => Self::Failure,
            (false, true) => Self::Usage,
            (false, false) => Self::Infrastructure,
        }
    }

    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Infrastructure => 3,
            Self::Hopeless => 78,
            Self::NotStarted(code) => code,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}
