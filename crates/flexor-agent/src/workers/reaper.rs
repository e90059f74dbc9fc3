//! The one place that waits for children.
//!
//! The launcher adopts the orphans of its workers and must wait for them too, else they stay as zombies. Waiting for
//! *any* child takes the exits of all, so it happens here alone, on SIGCHLD: the caller sorts its workers from the
//! orphans. Nothing else in the process may start or wait for children (tokio's `Child` included) while a reaper lives;
//! what else a launcher wants to run, it runs as a group.
//!
//! With no child left there is no descendant left either: orphans go up the tree and end at the subreaper.

use std::io;

use nix::sys::prctl;
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Outcome;

/// Waits for the children of this process.
pub(super) struct Reaper {
    child_changed: Signal,
}

/// What one look at the children found.
pub(super) struct Reaped {
    /// Those that ended since the last look, by process id.
    pub(super) exits: Vec<(u32, Outcome)>,
    /// Whether no child, and so no descendant, is left.
    pub(super) none_left: bool,
}

impl Reaper {
    /// Makes this process the one that adopts orphans, and listens for ends of children.
    pub(super) fn new() -> io::Result<Self> {
        prctl::set_child_subreaper(true)?;
        Ok(Self { child_changed: signal(SignalKind::child())? })
    }

    /// Takes the exits that are there.
    pub(super) fn reap(&mut self) -> Reaped {
        let mut exits = Vec::new();
        // nix would lose an exit by a real-time signal, for which it has no name.
        let none_left = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let code = status.exit_status().map(Outcome::Code);
                    let outcome = code.or(status.terminating_signal().map(Outcome::Signal));
                    exits.extend(outcome.map(|outcome| (pid.as_raw_nonzero().get().unsigned_abs(), outcome)));
                }
                Ok(None) => break false,
                Err(Errno::INTR) => {}
                // The only other answer: there is no child.
                Err(_) => break true,
            }
        };
        Reaped { exits, none_left }
    }

    /// Waits until a child may have ended. Giving up this wait loses nothing.
    pub(super) async fn changed(&mut self) {
        self.child_changed.recv().await;
    }
}
