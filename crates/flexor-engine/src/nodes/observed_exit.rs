//! What was observed of a pod that has ended: raw facts, from a cluster or from this machine.

use flexor_model::UnixTime;

/// Everything observed of the exit of one pod. A pod that is gone without a trace is `ObservedExit::default()`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedExit {
    /// How the main program ended, if that was observed.
    pub exit: Option<ProgramExit>,
    /// The reason that the container runtime gives for the main container: `OOMKilled`, `Error`, `StartError`, …
    pub container_reason: Option<String>,
    /// The reason in the pod's status: `Evicted`, `Preempting`, `NodeLost`, `OutOfcpu`, …
    pub pod_reason: Option<String>,
    /// The reason of the pod's `DisruptionTarget` condition: `PreemptionByScheduler`, `DeletionByTaintManager`, …
    pub disruption: Option<String>,
    /// Who deleted the pod.
    pub deletion: Option<Deletion>,
    /// The message of the error file that the program left; of a preempted pod, which pod needed the room.
    pub error: Option<String>,
    /// When the program failed, where that is known: a launcher runs on for a while after its program has failed.
    pub failed_at: Option<UnixTime>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramExit {
    /// By itself, with this code; or by a signal and a shell or runtime that made a code of it.
    Code(i32),
    /// By this signal, as its parent sees it.
    Signal(i32),
}

/// Who deleted a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The controller: the role shrank, a plan moved the pod, or the job ended.
    Ours,
    /// A person, a drain, or another controller.
    Others,
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
