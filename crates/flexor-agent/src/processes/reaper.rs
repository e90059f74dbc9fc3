//! The one place that waits for children.
//!
//! This process adopts the orphans of what it starts and must wait for them too, else they stay as zombies. Waiting for
//! *any* child takes the exits of all, so it happens here alone, on SIGCHLD, and what was taken is kept for those whose
//! program it was. Nothing else in the process may start or wait for children (tokio's `Child` included) while a
//! [`Watch`] lives; what else it wants to run, it runs by [`super::Processes`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use nix::sys::prctl;
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Outcome;
use super::lineage::{Mark, Serial};
use super::look::Look;
use super::tree::{self, Identity, Process};

/// What is known of all children of this process.
struct Children {
    /// How many watches there are.
    watches: usize,
    last: Serial,
    /// Those that were started and not waited for, by process id.
    running: BTreeMap<u32, Serial>,
    /// Those that ended and that nobody has asked for yet, in the order in which they were waited for.
    ended: Vec<(Serial, Outcome, Timestamp)>,
    /// Children from before the first watch: a shell's background jobs outlive `exec flexor launch`. They and what
    /// descends from them are nobody's to end; an orphan of theirs that is adopted later cannot be told from others.
    bystanders: BTreeSet<Identity>,
}

static CHILDREN: Mutex<Children> = Mutex::new(Children {
    watches: 0,
    last: Serial(0),
    running: BTreeMap::new(),
    ended: Vec::new(),
    bystanders: BTreeSet::new(),
});

fn children() -> MutexGuard<'static, Children> {
    // Nothing panics halfway through a change.
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Children {
    fn origin(&self, child: &Process) -> Origin {
        if self.bystanders.contains(&child.identity()) {
            return Origin::Before;
        }
        let started = u32::try_from(child.pid).ok().and_then(|pid| self.running.get(&pid).copied());
        started.or_else(|| Mark::serial_of(child.pid)).map_or(Origin::Unknown, Origin::Start)
    }
}

/// Where a child of this process comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was started here, or descends from what was.
    Start(Serial),
    /// It was there before anything was started.
    Before,
    /// An orphan without a mark of ours.
    Unknown,
}

/// Lets one [`super::Processes`] start children and hear of their ends.
pub(super) struct Watch {
    child_changed: Signal,
}

impl Watch {
    /// Makes this process the one that adopts orphans, and listens for ends of children.
    pub(super) fn new() -> io::Result<Self> {
        let watch = Self { child_changed: signal(SignalKind::child())? };
        let mut children = children();
        children.watches += 1;
        if children.watches == 1 {
            let there = tree::own_children()?.into_iter().filter_map(Process::read);
            children.bystanders = there.map(|process| process.identity()).collect();
            prctl::set_child_subreaper(true)?;
        }
        drop(children);
        Ok(watch)
    }

    /// Starts what `command` makes of the mark it is to carry.
    pub(super) fn spawn(&self, command: impl FnOnce(Mark) -> Command) -> io::Result<(Serial, u32)> {
        // Held over the start, so that nobody waits for the child before it is known.
        let mut children = children();
        let serial = Serial(children.last.0.wrapping_add(1));
        children.last = serial;
        let pid = command(Mark::new(serial)).spawn()?.id();
        children.running.insert(pid, serial);
        Ok((serial, pid))
    }

    /// Waits for those that have ended, of all watches. Ends of orphans need no more than that.
    pub(super) fn reap(&self) {
        let mut children = children();
        // Before the exits are taken: what others make of them comes after.
        let now = Timestamp::now();
        loop {
            // nix would lose an exit by a real-time signal, for which it has no name.
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let code = status.exit_status().map(Outcome::Code);
                    let Some(outcome) = code.or(status.terminating_signal().map(Outcome::Signal)) else { continue };
                    if let Some(serial) = children.running.remove(&pid.as_raw_nonzero().get().unsigned_abs()) {
                        children.ended.push((serial, outcome, now));
                    }
                }
                Err(Errno::INTR) => {}
                // None has ended, or there is none.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// How and when those that are `ours` have ended, each once.
    pub(super) fn take_exits(&self, ours: impl Fn(Serial) -> bool) -> Vec<(Serial, Outcome, Timestamp)> {
        children().ended.extract_if(.., |(serial, ..)| ours(*serial)).collect()
    }

    /// Makes whatever becomes of `serial` nobody's concern.
    pub(super) fn forget(&self, serial: Serial) {
        let mut children = children();
        children.running.retain(|_, running| *running != serial);
        children.ended.retain(|(ended, ..)| *ended != serial);
    }

    /// Looks at those of this process's children that are `ours`, by their origin and whether this is the only watch, and
    /// at all that descend from them.
    pub(super) fn look(&self, ours: impl Fn(Origin, bool) -> bool) -> Look {
        // Held over the look: a child that somebody waits for meanwhile would vanish before it was looked at.
        let children = children();
        Look::at(|child| ours(children.origin(child), children.watches == 1))
    }

    /// Waits until a child may have ended. Giving up this wait loses nothing.
    pub(super) async fn changed(&mut self) {
        self.child_changed.recv().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        children().watches -= 1;
    }
}
