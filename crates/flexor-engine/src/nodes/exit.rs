//! The kinds of ends, and what each costs.

use std::fmt;

use flexor_model::Reason;
use serde::{Deserialize, Serialize};

/// An end with its kind and a few words about this case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Its kind.
    pub kind: ExitKind,
    /// What was seen, in words; the root cause where the program told it.
    pub detail: String,
}

/// What kind of end it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExitKind {
    /// The program ended well.
    Succeeded,
    /// The controller took the node away on purpose.
    Removed,
    /// Something more important needed the place.
    Preempted,
    /// The machine ran short of something, or is drained.
    Evicted,
    /// The machine is gone, shut down, or does not answer.
    MachineLost,
    /// The machine refused the pod before anything of it ran.
    Rejected,
    /// Somebody else deleted the pod, or it is gone without a trace.
    Deleted,
    /// The program was killed from outside, by whom is not known.
    Killed,
    /// The machine did not pass the check before training.
    CheckFailed,
    /// The node held the others up.
    Slow,
    /// The program used more memory than it may.
    OutOfMemory,
    /// The program says that its machine is broken.
    Hardware,
    /// The program lived but made no progress.
    Hung,
    /// The pod ran longer than its template allows.
    DeadlineExceeded,
    /// The program failed.
    ProgramError,
    /// The program refused what it was given, and says that trying again would change nothing.
    ProgramRefused,
    /// Nothing of the pod can run as its template has it.
    CannotRun,
}

/// What an end costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// There is nothing to do again.
    Nothing,
    /// A relaunch that is not counted: infrastructure was lost.
    Free,
    /// A relaunch that is counted against the limit.
    Retry,
    /// The node: trying again would change nothing.
    TheNode,
    /// The job: trying again would change nothing.
    TheJob,
}

impl ExitKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::Succeeded,
        Self::Removed,
        Self::Preempted,
        Self::Evicted,
        Self::MachineLost,
        Self::Rejected,
        Self::Deleted,
        Self::Killed,
        Self::CheckFailed,
        Self::Slow,
        Self::OutOfMemory,
        Self::Hardware,
        Self::Hung,
        Self::DeadlineExceeded,
        Self::ProgramError,
        Self::ProgramRefused,
        Self::CannotRun,
    ];

    /// What it costs.
    pub fn cost(self) -> Cost {
        match self {
            Self::Succeeded | Self::Removed => Cost::Nothing,
            // A failed check is the master's own finding about a machine, so it is an infrastructure loss. Hardware is
            // only the program's word for it, which would make every program retry for ever that says so.
            Self::Preempted
            | Self::Evicted
            | Self::MachineLost
            | Self::Rejected
            | Self::Deleted
            | Self::Killed
            | Self::CheckFailed
            | Self::Slow => Cost::Free,
            Self::OutOfMemory | Self::Hardware | Self::Hung | Self::DeadlineExceeded | Self::ProgramError => {
                Cost::Retry
            }
            Self::ProgramRefused => Cost::TheNode,
            Self::CannotRun => Cost::TheJob,
        }
    }

    /// The stable word for it.
    pub fn reason(self) -> Reason {
        match self {
            Self::Succeeded => Reason::ProgramSucceeded,
            Self::Removed => Reason::NodeRemoved,
            Self::Preempted => Reason::Preempted,
            Self::Evicted => Reason::Evicted,
            Self::MachineLost => Reason::MachineLost,
            Self::Rejected => Reason::PodRejected,
            Self::Deleted => Reason::PodDeleted,
            Self::Killed => Reason::ProgramKilled,
            Self::CheckFailed => Reason::CheckFailed,
            Self::Slow => Reason::NodeSlow,
            Self::OutOfMemory => Reason::OutOfMemory,
            Self::Hardware => Reason::HardwareError,
            Self::Hung => Reason::ProgramHung,
            Self::DeadlineExceeded => Reason::PodDeadlineExceeded,
            Self::ProgramError => Reason::ProgramError,
            Self::ProgramRefused => Reason::ProgramRefused,
            Self::CannotRun => Reason::CannotRun,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.reason(), self.detail)
    }
}
