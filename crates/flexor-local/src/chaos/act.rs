//! One act: when, what, and to whom. A place in a job is named, not a pod: pods come and go.

use std::fmt;
use std::time::Duration;

use flexor_model::{Rank, RoleName};
use serde::{Deserialize, Serialize};

use crate::cluster::JobKey;

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Act {
    /// When, in milliseconds since the start.
    pub at_ms: u64,
    /// What, and to whom.
    pub deed: Deed,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Deed {
    /// SIGKILL to the pod's program.
    Kill(Seat),
    /// SIGKILL to the pod's parent: all of it is gone at once, as when a machine is lost.
    KillParent(Seat),
    /// SIGKILL to what stands beside the pod's program.
    KillSidecar(Seat),
    /// SIGSTOP to the pod's program and all that it has started, SIGCONT after a while.
    Stop {
        /// Whose.
        seat: Seat,
        /// How long.
        for_ms: u64,
    },
    /// The pod is deleted, as `flexor delete pod` does it.
    Delete(Seat),
    /// The disk of a job's master is full for a while.
    FillDisk {
        /// Whose.
        job: JobKey,
        /// How long.
        for_ms: u64,
    },
    /// The disk of a job's master is slow for a while.
    SlowDisk {
        /// Whose.
        job: JobKey,
        /// How much longer every fsync takes.
        by_ms: u64,
        /// How long.
        for_ms: u64,
    },
    /// The clock of a job's master jumps, and stays there.
    JumpClock {
        /// Whose.
        job: JobKey,
        /// How far; back where it is less than nothing.
        by_ms: i64,
    },
    /// The cluster cannot write anything down for a while.
    FailWrites {
        /// How long.
        for_ms: u64,
    },
}

/// A place in a job, whoever has it at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Seat {
    /// The job.
    pub job: JobKey,
    /// The role.
    pub role: RoleName,
    /// The place in the role.
    pub rank: Rank,
}

impl Act {
    /// When, since the start.
    pub fn at(&self) -> Duration {
        Duration::from_millis(self.at_ms)
    }
}

impl Deed {
    /// The job that it is done to; none where it is the cluster.
    pub fn job(&self) -> Option<&JobKey> {
        match self {
            Deed::Kill(seat) | Deed::KillParent(seat) | Deed::KillSidecar(seat) | Deed::Delete(seat) => Some(&seat.job),
            Deed::Stop { seat, .. } => Some(&seat.job),
            Deed::FillDisk { job, .. } | Deed::SlowDisk { job, .. } | Deed::JumpClock { job, .. } => Some(job),
            Deed::FailWrites { .. } => None,
        }
    }

    /// How long it lasts; nothing for what is done at once.
    pub fn lasts(&self) -> Option<Duration> {
        match self {
            Deed::Kill(_) | Deed::KillParent(_) | Deed::KillSidecar(_) | Deed::Delete(_) | Deed::JumpClock { .. } => {
                None
            }
            Deed::Stop { for_ms, .. }
            | Deed::FillDisk { for_ms, .. }
            | Deed::SlowDisk { for_ms, .. }
            | Deed::FailWrites { for_ms } => Some(Duration::from_millis(*for_ms)),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}s {}", self.at().as_secs_f64(), self.deed)
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
        match self {
            Deed::Kill(seat) => write!(f, "kill {seat}"),
            Deed::KillParent(seat) => write!(f, "kill the parent of {seat}"),
            Deed::KillSidecar(seat) => write!(f, "kill the sidecar of {seat}"),
            Deed::Stop { seat, for_ms } => write!(f, "stop {seat} for {:.1}s", seconds(*for_ms)),
            Deed::Delete(seat) => write!(f, "delete {seat}"),
            Deed::FillDisk { job, for_ms } => write!(f, "fill the disk of {job} for {:.1}s", seconds(*for_ms)),
            Deed::SlowDisk { job, by_ms, for_ms } => {
                write!(f, "slow the disk of {job} by {by_ms}ms for {:.1}s", seconds(*for_ms))
            }
            Deed::JumpClock { job, by_ms } => {
                let (seconds, way) = (seconds(by_ms.unsigned_abs()), if *by_ms < 0 { "back" } else { "on" });
                write!(f, "set the clock of {job} {way} by {seconds:.0}s")
            }
            Deed::FailWrites { for_ms } => write!(f, "fail all writes of the cluster for {:.1}s", seconds(*for_ms)),
        }
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.role, self.rank.0, self.job.name)
    }
}
