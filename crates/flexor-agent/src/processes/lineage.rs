//! From which of our programs a process descends, when those in between are gone.
//!
//! A daemon's parents have died and its session is its own: nothing in the process tree leads back to the program it
//! came from. What every process keeps from the one that forked it, whatever it executes, closes or clears, are its
//! resource limits. One of them, the number of file locks, has had no effect since Linux 2.4.25; the shim sets it to
//! a [`Mark`], and an orphan that carries one of ours tells where it came from.
//!
//! Below a supervisor that is itself supervised, marks are the inner one's; its orphans are then of unknown origin.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One start of one program, numbered through the life of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Serial(pub(super) u32);

/// A serial of one supervisor: no two that live at the same time have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    /// The mark of a program that this process starts.
    pub(super) fn new(serial: Serial) -> Self {
        Self(u64::from(std::process::id()) << 32 | u64::from(serial.0))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    /// Puts the mark on this process and whatever it will start.
    ///
    /// A hard limit in the way only means that daemons are of unknown origin, so it is not worth failing for.
    pub(super) fn put_on(self) {
        let maximum = getrlimit(Resource::Locks).maximum;
        _ = setrlimit(Resource::Locks, Rlimit { current: Some(self.0), maximum });
    }

    /// Takes off whatever mark this process carries.
    pub(super) fn take_off() {
        let maximum = getrlimit(Resource::Locks).maximum;
        _ = setrlimit(Resource::Locks, Rlimit { current: maximum, maximum });
    }

    /// The mark that process `pid` carries.
    pub(super) fn of(pid: i32) -> Option<Self> {
        parse_limits(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
    }

    /// The process whose programs have this mark.
    pub(super) fn supervisor(self) -> u32 {
        u32::try_from(self.0 >> 32).unwrap_or(0)
    }

    /// The serial that process `pid` descends from, if this process started that.
    pub(super) fn serial_of(pid: i32) -> Option<Serial> {
        let mark = Self::of(pid)?;
        let serial = u32::try_from(mark.0 & u64::from(u32::MAX)).ok().map(Serial)?;
        (Self::new(serial) == mark).then_some(serial)
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The soft limit of file locks; `None` where it is unlimited.
fn parse_limits(limits: &str) -> Option<Mark> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    Mark::parse(line.split_ascii_whitespace().next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_among_the_limits() {
        let limits = |locks: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max locked memory         8388608              8388608              bytes     \n\
                 Max file locks            {locks:<20} unlimited            locks     \n"
            )
        };
        let mark = Mark::new(Serial(7));
        assert_eq!(parse_limits(&limits(&mark.to_string())), Some(mark));
        assert_eq!(parse_limits(&limits("unlimited")), None);
        assert_eq!(parse_limits(""), None);
    }

    #[test]
    fn the_mark_of_another_supervisor_is_none_of_ours() {
        // This process carries no mark of its own, but whoever started it may have put one there.
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(Mark::serial_of(own), None);
    }
}
