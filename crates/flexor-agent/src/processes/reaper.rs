//! The one place that waits for children.
//!
//! This process adopts the orphans of its programs and must wait for them too, or they stay as zombies. Waiting for *any*
//! child takes the exits of all, so it happens only here, on SIGCHLD; exits are kept until the owner of the program asks.
//! While a [`ChildWatch`] lives, nothing else in the process may start or wait for children (tokio's `Child` included):
//! it uses [`super::Processes`] instead.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use nix::sys::prctl;
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::ExitOutcome;
use super::process_tag::{ProcessTag, StartId};
use super::snapshot::ProcessSnapshot;
use super::tree::{self, Identity, Process};

/// All children of this process.
struct Children {
    /// Number of living watches.
    watches: usize,
    last: StartId,
    /// Started and not waited for, by process id.
    running: BTreeMap<u32, StartId>,
    /// Exits that no watch has taken yet, in the order in which they were waited for.
    ended: Vec<(StartId, ExitOutcome, Timestamp)>,
    /// Children from before the first watch: a shell's background jobs survive `exec flexor launch`. They and their
    /// descendants are never ended. An orphan of theirs that is adopted later cannot be told from others.
    bystanders: BTreeSet<Identity>,
}

static CHILDREN: Mutex<Children> = Mutex::new(Children {
    watches: 0,
    last: StartId(0),
    running: BTreeMap::new(),
    ended: Vec::new(),
    bystanders: BTreeSet::new(),
});

fn children() -> MutexGuard<'static, Children> {
    // No change of it panics halfway.
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Children {
    fn origin(&self, child: &Process) -> Origin {
        if self.bystanders.contains(&child.identity()) {
            return Origin::Before;
        }
        let started = u32::try_from(child.pid).ok().and_then(|pid| self.running.get(&pid).copied());
        started.or_else(|| ProcessTag::start_id_of(child.pid)).map_or(Origin::Unknown, Origin::Start)
    }
}

/// Where a child of this process comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was started by this process, or descends from such a program.
    Start(StartId),
    /// It existed before the first watch.
    Before,
    /// An orphan without a tag of ours.
    Unknown,
}

/// Lets one [`super::Processes`] start children and learn of their exits.
pub(super) struct ChildWatch {
    child_changed: Signal,
}

impl ChildWatch {
    /// Makes this process a subreaper, which adopts orphans, and listens for SIGCHLD.
    pub(super) fn new() -> io::Result<Self> {
        let watch = Self { child_changed: signal(SignalKind::child())? };
        let mut children = children();
        children.watches += 1;
        if children.watches == 1 {
            let existing = tree::own_children()?.into_iter().filter_map(Process::read);
            children.bystanders = existing.map(|process| process.identity()).collect();
            prctl::set_child_subreaper(true)?;
        }
        drop(children);
        Ok(watch)
    }

    /// Starts the command that `command` makes for a tag.
    pub(super) fn spawn(&self, command: impl FnOnce(ProcessTag) -> Command) -> io::Result<(StartId, u32)> {
        // The lock is held during the start, so that no watch waits for the child before it is registered.
        let mut children = children();
        let start_id = StartId(children.last.0.wrapping_add(1));
        children.last = start_id;
        let pid = command(ProcessTag::new(start_id)).spawn()?.id();
        children.running.insert(pid, start_id);
        Ok((start_id, pid))
    }

    /// Waits for ended children of all watches. Ended orphans need nothing more.
    pub(super) fn reap(&self) {
        let mut children = children();
        // Read before the exits are taken, so that their consequences have later times.
        let now = Timestamp::now();
        loop {
            // nix would lose an exit by a real-time signal, because it has no name for that.
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let code = status.exit_status().map(ExitOutcome::Code);
                    let Some(outcome) = code.or(status.terminating_signal().map(ExitOutcome::Signal)) else { continue };
                    if let Some(start_id) = children.running.remove(&pid.as_raw_nonzero().get().unsigned_abs()) {
                        children.ended.push((start_id, outcome, now));
                    }
                }
                Err(Errno::INTR) => {}
                // None has ended, or there is none.
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Takes the exits that are `ours`.
    pub(super) fn take_exits(&self, ours: impl Fn(StartId) -> bool) -> Vec<(StartId, ExitOutcome, Timestamp)> {
        children().ended.extract_if(.., |(start_id, ..)| ours(*start_id)).collect()
    }

    /// Drops the exit of `start_id`, now or later.
    pub(super) fn forget(&self, start_id: StartId) {
        let mut children = children();
        children.running.retain(|_, running| *running != start_id);
        children.ended.retain(|(ended, ..)| *ended != start_id);
    }

    /// Takes a snapshot of the children that are `ours`, with their descendants. `ours` gets a child's origin and whether
    /// this is the only watch.
    pub(super) fn snapshot(&self, ours: impl Fn(Origin, bool) -> bool) -> ProcessSnapshot {
        // The lock is held during the snapshot: a child that is waited for meanwhile would be missing in it.
        let children = children();
        ProcessSnapshot::take(|child| ours(children.origin(child), children.watches == 1))
    }

    /// Waits until a child may have ended. Dropping the future loses nothing.
    pub(super) async fn changed(&mut self) {
        self.child_changed.recv().await;
    }
}

impl Drop for ChildWatch {
    fn drop(&mut self) {
        children().watches -= 1;
    }
}
