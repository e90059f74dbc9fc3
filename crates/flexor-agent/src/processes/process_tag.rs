//! Process tags: they tell from which of our programs a process descends, even when the processes in between are gone.
//!
//! A daemon's parents have died and its session is its own, so the process tree does not lead back to its program. But
//! every process inherits its resource limits, whatever it executes, closes or clears. One of them, the number of file
//! locks, has had no effect since Linux 2.4.25. The shim sets it to a [`ProcessTag`], which every descendant carries.
//!
//! Below a supervisor that is itself supervised, processes carry the inner supervisor's tags. For the outer supervisor
//! such orphans are of unknown origin.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One start of one program. Numbers are never reused within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StartId(pub(super) u32);

/// Supervisor and start of a process. No two supervisors that live at the same time have a tag in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessTag(u64);

impl ProcessTag {
    /// The tag for a program that this process starts.
    pub(super) fn new(start_id: StartId) -> Self {
        Self(u64::from(std::process::id()) << 32 | u64::from(start_id.0))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    /// Tags this process and all that it will start.
    ///
    /// A hard limit may prevent it. Daemons are then of unknown origin, which is no reason to fail.
    pub(super) fn apply_to_self(self) {
        let maximum = getrlimit(Resource::Locks).maximum;
        _ = setrlimit(Resource::Locks, Rlimit { current: Some(self.0), maximum });
    }

    /// Removes the tag of this process.
    pub(super) fn clear_own() {
        let maximum = getrlimit(Resource::Locks).maximum;
        _ = setrlimit(Resource::Locks, Rlimit { current: maximum, maximum });
    }

    /// The tag that process `pid` carries.
    pub(super) fn of(pid: i32) -> Option<Self> {
        parse_limits(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
    }

    /// The id of the supervisor whose programs carry this tag.
    pub(super) fn supervisor(self) -> u32 {
        u32::try_from(self.0 >> 32).unwrap_or(0)
    }

    /// The start that process `pid` descends from, if it was started by this process.
    pub(super) fn start_id_of(pid: i32) -> Option<StartId> {
        let tag = Self::of(pid)?;
        let start_id = u32::try_from(tag.0 & u64::from(u32::MAX)).ok().map(StartId)?;
        (Self::new(start_id) == tag).then_some(start_id)
    }
}

impl std::fmt::Display for ProcessTag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The soft limit of file locks; `None` where it is unlimited.
fn parse_limits(limits: &str) -> Option<ProcessTag> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    ProcessTag::parse(line.split_ascii_whitespace().next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_among_the_limits() {
        let limits = |locks: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max locked memory         8388608              8388608              bytes     \n\
                 Max file locks            {locks:<20} unlimited            locks     \n"
            )
        };
        let tag = ProcessTag::new(StartId(7));
        assert_eq!(parse_limits(&limits(&tag.to_string())), Some(tag));
        assert_eq!(parse_limits(&limits("unlimited")), None);
        assert_eq!(parse_limits(""), None);
    }

    #[test]
    fn the_tag_of_another_supervisor_is_none_of_ours() {
        // This process has not tagged itself, but its own supervisor may have.
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(ProcessTag::start_id_of(own), None);
    }
}
