//! Processes and their descendants, read from `/proc`.
//!
//! Only the processes in question are read, by the lists of children that the kernel keeps for each thread
//! (`/proc/PID/task/*/children`), never all processes of the machine. [`super::snapshot`] decides which processes belong
//! to a program, and [`super::termination`] which of them get a signal.

use std::fs;
use std::io;

use nix::unistd::Pid;

/// A process as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    /// When it started, in the kernel's ticks since boot; with the id it names one process for good.
    pub started: u64,
    /// The name of its program, as `ps` shows it; cut by the kernel after 15 bytes.
    pub name: String,
    /// The process that started it, or has adopted it since.
    pub parent: i32,
    /// CPU time, in the kernel's ticks.
    pub ticks: u64,
    /// Resident memory, in pages.
    pub pages: u64,
    group: i32,
    zombie: bool,
}

/// Process id and start time: no other process ever has both.
pub(super) type Identity = (i32, u64);

impl Process {
    /// Reads one process; `None` if it is gone.
    pub fn read(pid: i32) -> Option<Self> {
        parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    pub(super) fn id(&self) -> Pid {
        Pid::from_raw(self.pid)
    }

    /// Its process group. All processes of a group belong to the same session.
    pub(super) fn group(&self) -> Pid {
        Pid::from_raw(self.group)
    }

    pub(super) fn identity(&self) -> Identity {
        (self.pid, self.started)
    }

    /// Whether its parent is this process (ours).
    pub(super) fn is_child(&self) -> bool {
        self.parent == own_pid()
    }

    /// False for a zombie, which has ended and was not waited for.
    pub fn is_alive(&self) -> bool {
        !self.zombie
    }

    /// This process and all its descendants, parents before their children.
    pub fn with_descendants(self) -> Vec<Self> {
        let mut found = vec![self];
        let mut next = 0;
        while let Some(parent) = found.get(next).map(|process| process.pid) {
            // Children of a process that ends meanwhile become our children, and are found there.
            let children = children(parent).unwrap_or_default().into_iter().filter_map(Self::read);
            found.extend(children.filter(|child| child.parent == parent));
            next += 1;
        }
        found
    }
}

/// The children of this process, zombies included.
///
/// # Errors
///
/// There is no `/proc`, or the kernel keeps no such lists in it.
pub(super) fn own_children() -> io::Result<Vec<i32>> {
    let own = own_pid();
    fs::metadata(format!("/proc/{own}/task/{own}/children"))?;
    children(own)
}

fn own_pid() -> i32 {
    Pid::this().as_raw()
}

fn children(parent: i32) -> io::Result<Vec<i32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{parent}/task"))? {
        // Children of a thread that has ended since belong to another thread, or to us.
        let list = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    children.sort_unstable();
    Ok(children)
}

/// Parses a line of `/proc/PID/stat`. The name in it stands in parentheses and may contain any byte.
fn parse(stat: &[u8]) -> Option<Process> {
    let text = String::from_utf8_lossy(stat);
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Fields 14, 15, 20, 22 and 24 of proc(5), of which pid, name, state, parent and group are the first five.
    let (user, system): (u64, u64) = (fields.nth(8)?.parse().ok()?, fields.next()?.parse().ok()?);
    let threads: i64 = fields.nth(4)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    let pages = fields.nth(1)?.parse().ok()?;
    // The first thread of a process may be dead while others run.
    let zombie = dead && threads <= 1;
    let (pid, name, ticks) = (pid.parse().ok()?, name.to_owned(), user + system);
    Some(Process { pid, started, name, parent, ticks, pages, group, zombie })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = |name: &str, state: &str, threads: u32| {
            format!("42 ({name}) {state} 7 42 42 0 -1 4194304 90 0 0 0 12 30 0 0 20 0 {threads} 0 5551 2600960 77\n")
        };
        for name in ["sh", "a b", "(sd-pam)", ") R 1 1", "\u{fffd}"] {
            let process = parse(stat(name, "S", 1).as_bytes()).unwrap();
            assert_eq!((process.pid, process.parent, process.started), (42, 7, 5551), "{name}");
            assert_eq!((process.name.as_str(), process.zombie), (name, false));
            assert_eq!((process.ticks, process.pages), (42, 77));
        }
        assert!(parse(stat("sh", "Z", 1).as_bytes()).unwrap().zombie);
        assert!(!parse(stat("sh", "Z", 2).as_bytes()).unwrap().zombie, "its other threads run");
    }

    #[test]
    fn a_malformed_line_is_no_process() {
        for line in ["", "42", "42 (sh", "42 (sh) S", "x (sh) S 7 42 42 0 -1", "42 (sh) S 7 42 42 0 -1"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }
}
