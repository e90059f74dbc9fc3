//! Memory limits of containers: by cgroups where the cluster can create some, else by polling the containers' processes.
//!
//! The cluster detects the means once, when it starts ([`detect`]), and writes them into its state directory, where the
//! pods' supervisors read them ([`of_state_dir`]). A container with a limit gets a cgroup of its own. The supervisor
//! removes it when its pod ends; the cluster removes it with the pod ([`forget_pod`]) or at its next start ([`begin`]).
//!
//! [`crate::supervisor`] does the polling.

mod cgroup;
mod cgroup_tree;
mod detection;
mod own_cgroups;
mod record;

use std::fmt;

use flexor_model::Quantity;
use serde::{Deserialize, Serialize};

pub use self::cgroup::{Cgroup, CgroupUsage, CgroupVersion};
pub use self::cgroup_tree::CgroupTree;
pub use self::detection::{LimitsMode, detect};
pub use self::record::{begin, forget_pod, of_state_dir};

/// The means by which a cluster limits memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryLimits {
    /// The kernel enforces limits.
    Cgroups(CgroupTree),
    /// Supervisors poll processes, for this reason.
    Watched(String),
}

/// The memory limit of one container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// In bytes.
    pub to: u64,
    pub by: MemoryLimiter,
}

/// What enforces a container's memory limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryLimiter {
    /// The kernel, by a cgroup of the container's own.
    Cgroup(Cgroup),
    /// The pod's supervisor polls its processes, for this reason.
    Watched(String),
}

impl MemoryLimit {
    pub fn group(&self) -> Option<&Cgroup> {
        match &self.by {
            MemoryLimiter::Cgroup(group) => Some(group),
            MemoryLimiter::Watched(_) => None,
        }
    }
}

impl MemoryLimits {
    pub fn groups(&self) -> Option<&CgroupTree> {
        match self {
            MemoryLimits::Cgroups(groups) => Some(groups),
            MemoryLimits::Watched(_) => None,
        }
    }
}

impl fmt::Display for MemoryLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryLimits::Cgroups(groups) => groups.version.fmt(f),
            MemoryLimits::Watched(cause) => best_effort(f, cause),
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let as_written =
            if self.to.is_multiple_of(1 << 10) { format!("{}Ki", self.to >> 10) } else { self.to.to_string() };
        match as_written.parse::<Quantity>() {
            Ok(shortest) => write!(f, "{shortest} ")?,
            Err(_) => write!(f, "{as_written} ")?,
        }
        match &self.by {
            MemoryLimiter::Cgroup(group) => group.version.fmt(f),
            MemoryLimiter::Watched(cause) => best_effort(f, cause),
        }
    }
}

fn best_effort(f: &mut fmt::Formatter<'_>, cause: &str) -> fmt::Result {
    write!(f, "best effort: looked at ten times a second, because {cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_shown_as_people_write_it() {
        let shown = |to: u64| MemoryLimit { to, by: MemoryLimiter::Watched("of the test".to_owned()) }.to_string();
        assert_eq!(shown(128 << 20), "128Mi best effort: looked at ten times a second, because of the test");
        assert!(shown(1000).starts_with("1k best effort") && shown(1001).starts_with("1001 best effort"));
    }
}
