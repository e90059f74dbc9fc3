//! What is seen of a node that has ended: the raw facts, from a cluster, from this machine, or from the job's master.

/// Everything seen of the end of one node. A pod that is gone without a trace is `ObservedExit::default()`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedExit {
    /// How the main program ended, where that was seen.
    pub exit: Option<ProgramExit>,
    /// What the container runtime says about the main container: `OOMKilled`, `Error`, `StartError`, …
    pub container_reason: Option<String>,
    /// What the pod's status says: `Evicted`, `Preempting`, `NodeLost`, `OutOfcpu`, …
    pub pod_reason: Option<String>,
    /// The reason of the pod's `DisruptionTarget` condition: `PreemptionByScheduler`, `DeletionByTaintManager`, …
    pub disruption: Option<String>,
    /// Who had the pod deleted, if anybody had.
    pub deletion: Option<Deletion>,
    /// Why the job's master wants the node ended, if it does.
    pub verdict: Option<Verdict>,
    /// The message of the error file that the program left behind; of a preempted pod, who needed its place.
    pub error: Option<String>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramExit {
    /// By itself, with this code; or by a signal and a shell or runtime that made a code of it.
    Code(i32),
    /// By this signal, as its parent sees it.
    Signal(i32),
}

/// Who had a pod deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The controller itself: the role shrank, a plan moved the node, the job ended.
    Ours,
    /// Somebody else: a person, a drain, another controller.
    Others,
}

/// Why the job's master wants a node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It lives but makes no progress.
    Hung,
    /// Nothing is heard of it.
    Unreachable,
    /// It holds the others up.
    Slow,
    /// Its machine did not pass the check before training.
    CheckFailed,
}

impl ProgramExit {
    /// The code as a container runtime would give it: 128 and the signal's number for a signal.
    pub fn code(self) -> i32 {
        match self {
            ProgramExit::Code(code) => code,
            ProgramExit::Signal(signal) => signal.saturating_add(128),
        }
    }
}
