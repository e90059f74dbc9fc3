//! One fault: when, what, and to which slot. A slot of a job is named, not a pod: pods come and go.

use std::fmt;
use std::time::Duration;

use flexor_model::{Rank, RoleName};
use serde::{Deserialize, Serialize};

use crate::cluster::JobKey;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduledFault {
    /// In milliseconds since the start.
    pub at_ms: u64,
    pub fault: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Fault {
    /// SIGKILL to the pod's program.
    Kill(SlotRef),
    /// SIGKILL to the pod's supervisor: the whole pod is gone at once, as when a machine is lost.
    KillSupervisor(SlotRef),
    /// SIGKILL to the pod's sidecar.
    KillSidecar(SlotRef),
    /// SIGSTOP to the pod's program and its descendants, SIGCONT after `for_ms`.
    Stop { slot: SlotRef, for_ms: u64 },
    /// The pod is deleted, as `flexor delete pod` does it.
    Delete(SlotRef),
    /// The disk of a job's master is full for `for_ms`.
    FillDisk { job: JobKey, for_ms: u64 },
    /// The disk of a job's master is slow for `for_ms`.
    SlowDisk {
        job: JobKey,
        /// How much longer every fsync takes.
        by_ms: u64,
        for_ms: u64,
    },
    /// The clock of a job's master jumps, and stays there.
    JumpClock {
        job: JobKey,
        /// Negative values set the clock back.
        by_ms: i64,
    },
    /// All writes of the cluster fail for a while.
    FailWrites { for_ms: u64 },
}

/// A slot of a job, whichever pod fills it at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlotRef {
    pub job: JobKey,
    pub role: RoleName,
    pub rank: Rank,
}

impl ScheduledFault {
    /// Since the start.
    pub fn at(&self) -> Duration {
        Duration::from_millis(self.at_ms)
    }
}

impl Fault {
    /// The job that suffers it; none where the whole cluster does.
    pub fn job(&self) -> Option<&JobKey> {
        match self {
            Fault::Kill(slot) | Fault::KillSupervisor(slot) | Fault::KillSidecar(slot) | Fault::Delete(slot) => {
                Some(&slot.job)
            }
            Fault::Stop { slot, .. } => Some(&slot.job),
            Fault::FillDisk { job, .. } | Fault::SlowDisk { job, .. } | Fault::JumpClock { job, .. } => Some(job),
            Fault::FailWrites { .. } => None,
        }
    }

    /// How long it lasts; nothing for a fault that is over at once.
    pub fn lasts(&self) -> Option<Duration> {
        match self {
            Fault::Kill(_)
            | Fault::KillSupervisor(_)
            | Fault::KillSidecar(_)
            | Fault::Delete(_)
            | Fault::JumpClock { .. } => None,
            Fault::Stop { for_ms, .. }
            | Fault::FillDisk { for_ms, .. }
            | Fault::SlowDisk { for_ms, .. }
            | Fault::FailWrites { for_ms } => Some(Duration::from_millis(*for_ms)),
        }
    }
}

impl fmt::Display for ScheduledFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}s {}", self.at().as_secs_f64(), self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
        match self {
            Fault::Kill(slot) => write!(f, "kill {slot}"),
            Fault::KillSupervisor(slot) => write!(f, "kill the supervisor of {slot}"),
            Fault::KillSidecar(slot) => write!(f, "kill the sidecar of {slot}"),
            Fault::Stop { slot, for_ms } => write!(f, "stop {slot} for {:.1}s", seconds(*for_ms)),
            Fault::Delete(slot) => write!(f, "delete {slot}"),
            Fault::FillDisk { job, for_ms } => write!(f, "fill the disk of {job} for {:.1}s", seconds(*for_ms)),
            Fault::SlowDisk { job, by_ms, for_ms } => {
                write!(f, "slow the disk of {job} by {by_ms}ms for {:.1}s", seconds(*for_ms))
            }
            Fault::JumpClock { job, by_ms } => {
                let (seconds, way) = (seconds(by_ms.unsigned_abs()), if *by_ms < 0 { "back" } else { "on" });
                write!(f, "set the clock of {job} {way} by {seconds:.0}s")
            }
            Fault::FailWrites { for_ms } => write!(f, "fail all writes of the cluster for {:.1}s", seconds(*for_ms)),
        }
    }
}

impl fmt::Display for SlotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.role, self.rank.0, self.job.name)
    }
}
