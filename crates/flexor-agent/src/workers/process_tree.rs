//! Which processes descend from this one, read from `/proc`.
//!
//! The launcher adopts orphans (it is a child subreaper), so whatever its workers started, in sessions of their own and
//! forked twice or not, has a chain of parents that leads here. This module only reads; who gets which signal is
//! [`super::ending`]'s concern.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// A process that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// When it started, in the kernel's ticks since boot; with the id it names one process for good.
    pub started: u64,
    /// The name of its program, as `ps` shows it; cut by the kernel after 15 bytes.
    pub name: String,
    #[serde(skip)]
    parent: i32,
    #[serde(skip)]
    group: i32,
    /// Dead, but not yet waited for.
    #[serde(skip)]
    zombie: bool,
}

impl Process {
    pub(super) fn id(&self) -> Pid {
        Pid::from_raw(self.pid)
    }

    /// The process group that it is in; all of one belong to the same session.
    pub(super) fn group(&self) -> Pid {
        Pid::from_raw(self.group)
    }

    /// What no other process ever has.
    pub(super) fn identity(&self) -> (i32, u64) {
        (self.pid, self.started)
    }

    /// Whether this process (the launcher) is its parent.
    pub(super) fn is_child(&self) -> bool {
        u32::try_from(self.parent) == Ok(std::process::id())
    }
}

/// Children that were there before any worker was: a shell's background jobs outlive `exec flexor launch`. They and what
/// descends from them are nobody's to end. An orphan of theirs that is adopted later cannot be told from a worker's.
#[derive(Debug, Default)]
pub(super) struct Bystanders(BTreeSet<(i32, u64)>);

impl Bystanders {
    /// The children that this process has at the moment.
    pub(super) fn of_now() -> io::Result<Self> {
        let children = Self::default().others()?.into_iter().filter(Process::is_child);
        Ok(Self(children.map(|process| process.identity()).collect()))
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All living processes that descend from this one and not from a bystander, parents before their children.
    pub(super) fn others(&self) -> io::Result<Vec<Process>> {
        let mut children = BTreeMap::<i32, Vec<Process>>::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            // A process may end between the listing and the look at it.
            let Some(process) = fs::read(format!("/proc/{pid}/stat")).ok().and_then(|stat| parse(&stat)) else {
                continue;
            };
            children.entry(process.parent).or_default().push(process);
        }
        let mut found = Vec::new();
        let mut parents = Vec::from([i32::try_from(std::process::id()).unwrap_or(i32::MAX)]);
        while let Some(parent) = parents.pop() {
            for process in children.remove(&parent).unwrap_or_default() {
                if !self.0.contains(&process.identity()) {
                    parents.push(process.pid);
                    found.push(process);
                }
            }
        }
        found.retain(|process| !process.zombie);
        Ok(found)
    }
}

/// Reads a line of `/proc/PID/stat`. The name in it stands in parentheses and may itself hold any byte.
fn parse(stat: &[u8]) -> Option<Process> {
    let text = String::from_utf8_lossy(stat);
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Fields 20 and 22 of proc(5), of which pid, name, state, parent and group are the first five.
    let threads: i64 = fields.nth(14)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    // The first thread of a process may be dead while others go on.
    let zombie = dead && threads <= 1;
    Some(Process { pid: pid.parse().ok()?, started, name: name.to_owned(), parent, group, zombie })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = |name: &str, state: &str, threads: u32| {
            format!("42 ({name}) {state} 7 42 42 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 {threads} 0 5551 2600960 0\n")
        };
        for name in ["sh", "a b", "(sd-pam)", ") R 1 1", "\u{fffd}"] {
            let process = parse(stat(name, "S", 1).as_bytes()).unwrap();
            assert_eq!((process.pid, process.parent, process.started), (42, 7, 5551), "{name}");
            assert_eq!((process.name.as_str(), process.zombie), (name, false));
        }
        assert!(parse(stat("sh", "Z", 1).as_bytes()).unwrap().zombie);
        assert!(!parse(stat("sh", "Z", 2).as_bytes()).unwrap().zombie, "its other threads live");
    }

    #[test]
    fn what_is_no_such_line_is_no_process() {
        for line in ["", "42", "42 (sh", "42 (sh) S", "x (sh) S 7 42 42 0 -1", "42 (sh) S 7 42 42 0 -1"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }
}
