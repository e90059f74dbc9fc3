//! What keeps a container within its memory: the kernel, by a group that the container has for itself, or we.
//!
//! Without a group, what a program and all its descendants have is looked at, and who has too much is killed. Resident
//! memory counts what is shared more than once, so near the limit the exact share is read instead. What is in swap counts
//! too.

use std::fs;
use std::path::PathBuf;

use flexor_agent::processes::Process;
use nix::sys::signal::{Signal, kill as send};
use nix::unistd::Pid;
use tokio::time::Duration;

use crate::limits::{Group, Limited, Limiter, MemoryLimits, Version};

/// From this part of the limit on, in hundredths, it is worth reading exactly.
const NEAR: u64 = 80;
/// How often processes are looked at.
const LOOK_AT_PROCESSES: Duration = Duration::from_millis(100);
/// How often it is asked whether a child was killed; of its own end a program tells at once.
const LOOK_FOR_KILLS: Duration = Duration::from_millis(250);

/// What keeps a container within its memory.
#[derive(Debug)]
pub(super) enum Keeping {
    /// It may have as much as it likes.
    Nothing,
    /// The kernel, which had killed so many before this life of it.
    Kernel { limit: u64, group: Group, kills: u64 },
    /// We, for want of a group.
    Us { limit: u64, cause: String },
}

impl Keeping {
    /// Begins to keep a container within so many bytes, if there is a limit.
    pub(super) fn begin(limit: Option<u64>, limits: &MemoryLimits, pod: &str, container: &str) -> Self {
        let Some(limit) = limit else { return Keeping::Nothing };
        let cause = match limits {
            MemoryLimits::Groups(groups) => match groups.make(pod, container, limit) {
                Ok(group) => return Keeping::Kernel { limit, kills: group.kills(), group },
                Err(error) => format!("its cgroup cannot be made: {error}"),
            },
            MemoryLimits::Watched(cause) => cause.clone(),
        };
        Keeping::Us { limit, cause }
    }

    /// The folders of the groups that its program is to be in.
    pub(super) fn groups(&self) -> Vec<PathBuf> {
        match self {
            Keeping::Kernel { group, .. } => group.folders().cloned().collect(),
            Keeping::Nothing | Keeping::Us { .. } => Vec::new(),
        }
    }

    /// How often somebody has to look.
    pub(super) fn look_every(&self) -> Option<Duration> {
        match self {
            Keeping::Nothing => None,
            Keeping::Kernel { group, .. } => match group.version {
                Version::V1 => Some(LOOK_FOR_KILLS),
                // Where one is killed all are.
                Version::V2 => None,
            },
            Keeping::Us { .. } => Some(LOOK_AT_PROCESSES),
        }
    }

    /// Whether the container whose first process this is has wanted too much.
    pub(super) fn is_exceeded(&self, pid: u32) -> bool {
        match self {
            Keeping::Nothing => false,
            Keeping::Kernel { .. } => self.has_killed(),
            Keeping::Us { limit, .. } => have_more_than(*limit, pid),
        }
    }

    /// Whether the kernel has killed anything of the container.
    pub(super) fn has_killed(&self) -> bool {
        match self {
            Keeping::Kernel { group, kills, .. } => group.kills() > *kills,
            Keeping::Nothing | Keeping::Us { .. } => false,
        }
    }

    /// What is told about it.
    pub(super) fn told(&self) -> Option<Limited> {
        let (to, by) = match self {
            Keeping::Nothing => return None,
            Keeping::Kernel { limit, group, .. } => (*limit, Limiter::Group(group.clone())),
            Keeping::Us { limit, cause } => (*limit, Limiter::Watched(cause.clone())),
        };
        Some(Limited { to, by })
    }
}

/// Kills a process; its descendants are ended by whoever looks after it.
pub(super) fn kill(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        // It may have ended meanwhile, which is what is wanted.
        _ = send(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Whether a process and its descendants have more than `limit` bytes.
fn have_more_than(limit: u64, pid: u32) -> bool {
    let first = i32::try_from(pid).ok().and_then(Process::read);
    let family: Vec<i32> = first.into_iter().flat_map(Process::with_descendants).map(|process| process.pid).collect();
    let resident: u64 = family.iter().map(|pid| resident(*pid)).sum();
    if resident < limit / 100 * NEAR {
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

/// The sum of fields in kilobytes, as bytes. The first has to be there.
fn sum(path: &str, [first, second]: [&str; 2]) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    Some((field(first)? + field(second).unwrap_or(0)) << 10)
}
