//! Exit codes, the same for every command.

use std::process::ExitCode;

/// The exit codes as `--help` tells them.
pub const HELP: &str = "\
Exit codes:
  0    success
  1    failure: a job failed, or an input was refused or could not be read
  2    wrong usage
  3    infrastructure: a network or a cluster failed, or the output could not be written
  78   flexor worker, flexor ps: what it was given cannot work, and trying again is of no use
  130  interrupted";

/// An input that is refused or cannot be read, which says nothing against what the command needs.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Refused(pub anyhow::Error);

/// A word of the command line that is wrong, as no table of options can say.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Misused(pub anyhow::Error);

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything that was asked for was done.
    Success,
    /// The job failed, or the input was refused or could not be read.
    Failure,
    /// The command line is wrong; what clap finds wrong ends the process by itself.
    Usage,
    /// Something that the command needs failed: a network, a cluster, the place where its output goes.
    Infrastructure,
    /// What a part of a job was given cannot work: whoever started it need not try again.
    Hopeless,
    /// Ctrl-C ended it before it was done.
    Interrupted,
}

impl Exit {
    /// The code of an error: infrastructure, unless it says otherwise.
    pub fn of(error: &anyhow::Error) -> Self {
        match (error.is::<Refused>(), error.is::<Misused>()) {
            (true, _) => Self::Failure,
            (false, true) => Self::Usage,
            (false, false) => Self::Infrastructure,
        }
    }

    /// The code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Infrastructure => 3,
            Self::Hopeless => 78,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}
