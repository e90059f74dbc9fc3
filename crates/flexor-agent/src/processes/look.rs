//! A look at the processes that some of our programs have left, and whether it can be believed.
//!
//! This process adopts orphans, so whatever a program started, in sessions of its own and forked twice or not, descends
//! from one of our children: the program itself, or an orphan of it. While a look is taken the tree moves on; but an
//! orphan can only go to us, and stays in our list of children until it is waited for. When that list shows no other
//! child to look at, nothing was missed, whatever children of others come and go.

use std::collections::BTreeSet;

use nix::unistd::{Pid, getpgrp};

use super::tree::{Process, own_children};

/// How often to look for children that have come meanwhile.
const TRIES: usize = 8;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Dead ones that were not waited for included; one that was orphaned meanwhile may be there twice.
    found: Vec<Process>,
    /// Whether all that lived was found.
    complete: bool,
}

impl Look {
    /// Looks at those of our children that `belongs` picks, and all that descend from them. Nobody may wait for children
    /// meanwhile.
    pub(super) fn at(belongs: impl Fn(&Process) -> bool) -> Self {
        let mut look = Self::default();
        let mut seen = BTreeSet::new();
        for _ in 0..TRIES {
            // Without lists of children nothing would have been started.
            let children = own_children().unwrap_or_default().into_iter().filter(|child| seen.insert(*child));
            let children = children.filter_map(Process::read).filter(Process::is_child);
            let roots: Vec<_> = children.filter(|child| belongs(child)).collect();
            if roots.is_empty() {
                look.complete = true;
                break;
            }
            look.found.extend(roots.into_iter().flat_map(Process::with_descendants));
        }
        look
    }

    /// Those that live.
    pub(super) fn living(&self) -> impl Iterator<Item = &Process> {
        self.found.iter().filter(|process| process.lives())
    }

    /// Whether none lives, for certain.
    pub(super) fn nobody(&self) -> bool {
        self.complete && self.living().next().is_none()
    }

    /// Their process groups. A process that keeps forking and exiting is elsewhere by now, but its group is not: the dead
    /// count too. Groups are shared with no other program, because each began a session; one that has not come that far
    /// is in our own, which is left out.
    pub(super) fn groups(&self) -> BTreeSet<Pid> {
        self.found.iter().map(Process::group).filter(|group| *group != getpgrp()).collect()
    }
}
