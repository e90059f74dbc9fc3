//! A snapshot of the processes that descend from some of our programs, and whether it is complete.
//!
//! This process adopts orphans. So every process that a program started, in its own session or forked twice, descends
//! from one of our children: the program itself, or an orphan of it. The tree changes while the snapshot is taken. But an
//! orphan can only become our child, and it stays in our list of children until it is waited for. Once that list shows no
//! further child, nothing was missed.

use std::collections::BTreeSet;

use nix::unistd::{Pid, getpgrp};

use super::tree::{Process, own_children};

/// How often the list of children is read again for new ones.
const TRIES: usize = 8;

#[derive(Debug, Default)]
pub(super) struct ProcessSnapshot {
    /// Includes zombies. A process that was orphaned meanwhile may be there twice.
    processes: Vec<Process>,
    /// Whether every living process is in it.
    complete: bool,
}

impl ProcessSnapshot {
    /// Takes a snapshot of those of our children that `belongs` picks, and of all their descendants. No other thread may
    /// wait for children meanwhile.
    pub(super) fn take(belongs: impl Fn(&Process) -> bool) -> Self {
        let mut snapshot = Self::default();
        let mut seen = BTreeSet::new();
        for _ in 0..TRIES {
            // Nothing is started on systems without lists of children.
            let children = own_children().unwrap_or_default().into_iter().filter(|child| seen.insert(*child));
            let children = children.filter_map(Process::read).filter(Process::is_child);
            let roots: Vec<_> = children.filter(|child| belongs(child)).collect();
            if roots.is_empty() {
                snapshot.complete = true;
                break;
            }
            snapshot.processes.extend(roots.into_iter().flat_map(Process::with_descendants));
        }
        snapshot
    }

    pub(super) fn living(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.is_alive())
    }

    /// Whether certainly no process is alive.
    pub(super) fn is_empty(&self) -> bool {
        self.complete && self.living().next().is_none()
    }

    /// The process groups, also those of dead processes: a process that keeps forking and exiting has a new id by now, but
    /// the same group. No two programs share a group, because each program leads a session. A program that has not come
    /// that far is still in our own group, which is omitted.
    pub(super) fn groups(&self) -> BTreeSet<Pid> {
        self.processes.iter().map(Process::group).filter(|group| *group != getpgrp()).collect()
    }
}
