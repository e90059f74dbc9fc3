//! Keeps a container within its memory limit: the kernel does by a cgroup of the container's own, or the supervisor polls.
//!
//! Without a cgroup the supervisor polls the memory of the program and its descendants, and kills a container that has too
//! much. Resident memory counts shared pages more than once, so near the limit the proportional share is read instead.
//! Swap counts too.

use std::fs;
use std::path::PathBuf;

use flexor_agent::processes::Process;
use nix::sys::signal::{Signal, kill as send};
use nix::unistd::Pid;
use tokio::time::Duration;

use crate::limits::{Cgroup, CgroupVersion, MemoryLimit, MemoryLimiter, MemoryLimits};

/// From this percentage of the limit on, the exact share is read.
const NEAR_PERCENT: u64 = 80;
/// How often the memory of processes is polled.
const POLL_PROCESSES: Duration = Duration::from_millis(100);
/// How often a cgroup's OOM kills are polled, for children: the program's own end is noticed at once.
const POLL_KILLS: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) enum MemoryGuard {
    Unlimited,
    /// A cgroup, with its OOM kills before this run.
    Kernel {
        limit: u64,
        group: Cgroup,
        kills: u64,
    },
    /// The supervisor, for want of a cgroup.
    Polling {
        limit: u64,
        cause: String,
    },
}

impl MemoryGuard {
    /// Sets up the limit of a container, if it has one.
    pub(super) fn begin(limit: Option<u64>, limits: &MemoryLimits, pod: &str, container: &str) -> Self {
        let Some(limit) = limit else { return MemoryGuard::Unlimited };
        let cause = match limits {
            MemoryLimits::Cgroups(groups) => match groups.make(pod, container, limit) {
                Ok(group) => return MemoryGuard::Kernel { limit, kills: group.kills(), group },
                Err(error) => format!("its cgroup cannot be made: {error}"),
            },
            MemoryLimits::Watched(cause) => cause.clone(),
        };
        MemoryGuard::Polling { limit, cause }
    }

    /// The folders of the cgroups that its program must join.
    pub(super) fn groups(&self) -> Vec<PathBuf> {
        match self {
            MemoryGuard::Kernel { group, .. } => group.folders().cloned().collect(),
            MemoryGuard::Unlimited | MemoryGuard::Polling { .. } => Vec::new(),
        }
    }

    pub(super) fn poll_interval(&self) -> Option<Duration> {
        match self {
            MemoryGuard::Unlimited => None,
            MemoryGuard::Kernel { group, .. } => match group.version {
                CgroupVersion::V1 => Some(POLL_KILLS),
                // `memory.oom.group` kills all processes together.
                CgroupVersion::V2 => None,
            },
            MemoryGuard::Polling { .. } => Some(POLL_PROCESSES),
        }
    }

    /// Whether the container with this main process has exceeded its limit.
    pub(super) fn is_exceeded(&self, pid: u32) -> bool {
        match self {
            MemoryGuard::Unlimited => false,
            MemoryGuard::Kernel { .. } => self.has_killed(),
            MemoryGuard::Polling { limit, .. } => exceeds(*limit, pid),
        }
    }

    /// Whether the kernel's OOM killer has killed a process of the container in this run.
    pub(super) fn has_killed(&self) -> bool {
        match self {
            MemoryGuard::Kernel { group, kills, .. } => group.kills() > *kills,
            MemoryGuard::Unlimited | MemoryGuard::Polling { .. } => false,
        }
    }

    /// The limit as the pod's status shows it.
    pub(super) fn limit(&self) -> Option<MemoryLimit> {
        let (to, by) = match self {
            MemoryGuard::Unlimited => return None,
            MemoryGuard::Kernel { limit, group, .. } => (*limit, MemoryLimiter::Cgroup(group.clone())),
            MemoryGuard::Polling { limit, cause } => (*limit, MemoryLimiter::Watched(cause.clone())),
        };
        Some(MemoryLimit { to, by })
    }
}

/// Kills a process. The supervisor kills its descendants when it notices the end.
pub(super) fn kill(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        // The process may have ended meanwhile.
        _ = send(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Whether a process and its descendants have more than `limit` bytes.
fn exceeds(limit: u64, pid: u32) -> bool {
    let first = i32::try_from(pid).ok().and_then(Process::read);
    let family: Vec<i32> = first.into_iter().flat_map(Process::with_descendants).map(|process| process.pid).collect();
    let resident: u64 = family.iter().map(|pid| resident(*pid)).sum();
    if resident < limit / 100 * NEAR_PERCENT {
        return false;
    }
    family.iter().map(|pid| share(*pid).unwrap_or_else(|| self::resident(*pid))).sum::<u64>() > limit
}

fn resident(pid: i32) -> u64 {
    sum(&format!("/proc/{pid}/status"), ["VmRSS:", "VmSwap:"]).unwrap_or(0)
}

fn share(pid: i32) -> Option<u64> {
    sum(&format!("/proc/{pid}/smaps_rollup"), ["Pss:", "SwapPss:"])
}

/// The sum of two fields in kilobytes, as bytes; nothing without the first.
fn sum(path: &str, [first, second]: [&str; 2]) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    Some((field(first)? + field(second).unwrap_or(0)) << 10)
}
