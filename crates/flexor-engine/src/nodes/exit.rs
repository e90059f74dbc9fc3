//! The kinds of exits, and what each costs.

use std::fmt;

use flexor_model::Reason;
use serde::{Deserialize, Serialize};

/// An exit with its kind and a description of this case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// What kind of exit it was.
    pub kind: ExitKind,
    /// What was observed, and the root cause if it is known.
    pub detail: String,
    /// Whether `detail` has the root cause.
    pub has_root_cause: bool,
}

/// What kind of exit it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExitKind {
    /// The program ended well.
    Succeeded,
    /// The controller removed the pod on purpose.
    Removed,
    /// A pod of higher priority needed the room.
    Preempted,
    /// The machine ran short of a resource, or is drained.
    Evicted,
    /// The machine is gone, shut down, or does not answer.
    MachineLost,
    /// The machine refused the pod before anything of it ran.
    Rejected,
    /// The pod was deleted by another than the controller, or is gone without a trace.
    Deleted,
    /// The program was killed from outside by an unknown sender.
    Killed,
    /// The program used more memory than its limit.
    OutOfMemory,
    /// The program reports that its machine is broken.
    Hardware,
    /// The pod ran longer than its template allows.
    DeadlineExceeded,
    /// The program failed.
    ProgramError,
    /// The program refused its input and reports that a retry would change nothing.
    ProgramRefused,
    /// No container of the pod can run as its template describes it.
    CannotRun,
}

/// Whether an exit is charged against the failure budget, and what it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// The pod is not relaunched: its work is done, or the controller removed it.
    Nothing,
    /// The pod is relaunched and not charged: infrastructure was lost.
    Free,
    /// The pod is relaunched and charged against the limit.
    Charged,
    /// The pod is not relaunched: it would fail again.
    FailNode,
    /// The job fails: no pod of it can run as described.
    FailJob,
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
        Self::OutOfMemory,
        Self::Hardware,
        Self::DeadlineExceeded,
        Self::ProgramError,
        Self::ProgramRefused,
        Self::CannotRun,
    ];

    /// Whether it is charged, and what it ends.
    pub fn cost(self) -> Cost {
        match self {
            Self::Succeeded | Self::Removed => Cost::Nothing,
            Self::Preempted | Self::Evicted | Self::MachineLost | Self::Rejected | Self::Deleted | Self::Killed => {
                Cost::Free
            }
            // A hardware error is only the program's claim. Were it free, a program that always claims it would be
            // retried for ever.
            Self::OutOfMemory | Self::Hardware | Self::DeadlineExceeded | Self::ProgramError => Cost::Charged,
            Self::ProgramRefused => Cost::FailNode,
            Self::CannotRun => Cost::FailJob,
        }
    }

    /// The reason that events and statuses give for it.
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
            Self::OutOfMemory => Reason::OutOfMemory,
            Self::Hardware => Reason::HardwareError,
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
