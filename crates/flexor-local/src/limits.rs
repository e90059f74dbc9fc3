//! How the memory of containers is limited: by control groups where such can be made, else by looking at their processes.
//!
//! The cluster finds out once, when it starts ([`find`]), and writes it into its folder, where the parents of its pods
//! read it ([`of_state_dir`]). A container with a limit has a group of its own; one without is put nowhere. Groups are removed
//! by the parent when its pod ends, and by the cluster when it removes a pod ([`forget_pod`]) or starts again ([`begin`]).
//!
//! Looking at processes is [`crate::supervisor`]'s concern.

mod finding;
mod group;
mod groups;
mod own;
mod record;

use std::fmt;

use flexor_model::Quantity;
use serde::{Deserialize, Serialize};

pub use self::finding::{Wanted, find};
pub use self::group::{Group, GroupUsage, Version};
pub use self::groups::Groups;
pub use self::record::{begin, forget_pod, of_state_dir};

/// How the memory of containers is limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryLimits {
    /// The kernel does it.
    Groups(Groups),
    /// Their processes are looked at, because of this.
    Watched(String),
}

/// How the memory of one container is limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    /// To so many bytes.
    pub to: u64,
    /// By whom.
    pub by: Limiter,
}

/// Who sees to it that a container does not have too much memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Limiter {
    /// The kernel, by a group of the container's own.
    Group(Group),
    /// The parent of its pod looks at its processes, because of this.
    Watched(String),
}

impl Limited {
    /// The group of the container, if it has one.
    pub fn group(&self) -> Option<&Group> {
        match &self.by {
            Limiter::Group(group) => Some(group),
            Limiter::Watched(_) => None,
        }
    }
}

impl MemoryLimits {
    /// Where groups are made, if they are.
    pub fn groups(&self) -> Option<&Groups> {
        match self {
            MemoryLimits::Groups(groups) => Some(groups),
            MemoryLimits::Watched(_) => None,
        }
    }
}

impl fmt::Display for MemoryLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryLimits::Groups(groups) => groups.version.fmt(f),
            MemoryLimits::Watched(cause) => best_effort(f, cause),
        }
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let as_written =
            if self.to.is_multiple_of(1 << 10) { format!("{}Ki", self.to >> 10) } else { self.to.to_string() };
        match as_written.parse::<Quantity>() {
            Ok(shortest) => write!(f, "{shortest} ")?,
            Err(_) => write!(f, "{as_written} ")?,
        }
        match &self.by {
            Limiter::Group(group) => group.version.fmt(f),
            Limiter::Watched(cause) => best_effort(f, cause),
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
    fn a_limit_is_told_as_people_write_it() {
        let told = |to: u64| Limited { to, by: Limiter::Watched("of the test".to_owned()) }.to_string();
        assert_eq!(told(128 << 20), "128Mi best effort: looked at ten times a second, because of the test");
        assert!(told(1000).starts_with("1k best effort") && told(1001).starts_with("1001 best effort"));
    }
}
