//! The signal ladder: first asked, then killed, until nothing of a group is left.
//!
//! Everything that descends from the workers is part of it, in whatever session and however often forked. Nothing polls
//! for the end of a group that was asked: the end of a child wakes us, and when the last child is gone everything is.
//! Only after the grace, when processes that fork must not get away, the tree is walked again and again, for a bounded
//! time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::getpgrp;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout, timeout_at};

use super::group::WorkerGroup;
use super::process_tree::Process;

/// How long a killed process may take to vanish; longer is for those stuck in the kernel, which cannot be helped.
const KILLED_WITHIN: Duration = Duration::from_secs(10);
/// How soon to look for the first time for processes that did not get the signal.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// More grace than this is not counted; every clock has an end.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);
/// How soon to look again for processes that escaped a kill by forking.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long to go on reading the output of a group that is gone.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How a group is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// What the processes are asked with: the signal that the launcher got, or SIGTERM.
    pub signal: Signal,
    /// How long they may take before they are killed. Zero kills at once.
    pub grace: Duration,
}

impl Default for Ladder {
    fn default() -> Self {
        Self { signal: Signal::SIGTERM, grace: Duration::from_secs(30) }
    }
}

/// How the end of a group went.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ending {
    /// From the first signal to the last process.
    pub took: Duration,
    /// Those that outlived the grace and were killed.
    pub killed: Vec<Process>,
    /// Those that even a kill did not end: stuck in the kernel, or another user's.
    pub left: Vec<Process>,
}

impl WorkerGroup {
    /// Ends whatever is left of the group, and comes back as soon as nothing is.
    ///
    /// Also to be called when all workers have ended by themselves: they may have left daemons, and the last of their
    /// output is written here. A caller that gives up this wait (on a second signal, say) calls again with less grace.
    pub async fn end(&mut self, ladder: Ladder) -> Ending {
        let begun = Instant::now();
        // What ended until here ended by itself.
        self.collect();
        self.ending = true;
        if !self.gone && !ladder.grace.is_zero() {
            self.ask(ladder.signal, begun + ladder.grace.min(LONGEST_GRACE)).await;
        }
        let mut ending = if self.gone { Ending::default() } else { self.kill_all().await };
        ending.took = begun.elapsed();
        self.pumps.finish(LAST_WORDS).await;
        ending
    }

    /// Sends `signal` to everyone and waits until all are gone or the time is up.
    ///
    /// Two kinds of processes are asked later. Those that were started by one that died of the signal before they were
    /// seen: nobody else will ask them. (Those whose parent lives are left to it; they may be what it does to end well.)
    /// And those that became another program since they were asked: between fork and exec a signal goes to a handler of
    /// the old program, and is lost. Nothing wakes us for these, so the tree is looked at after ever longer pauses.
    async fn ask(&mut self, signal: Signal, until: Instant) {
        // The program that each process was when it was asked.
        let mut asked = BTreeMap::new();
        for process in self.living() {
            tell(&process, signal);
            asked.insert(process.identity(), process.name);
        }
        let mut pause = FIRST_PAUSE;
        loop {
            self.collect();
            if self.gone || Instant::now() >= until {
                return;
            }
            let look_again = (Instant::now() + pause).min(until);
            if timeout_at(look_again, self.reaper.changed()).await.is_err() {
                pause = pause.saturating_mul(2);
            }
            for process in self.living() {
                let due = match asked.get(&process.identity()) {
                    // Workers are theirs to name; they were asked as what they are.
                    Some(program) => *program != process.name && !self.has_worker(&process),
                    None => process.is_child(),
                };
                if due {
                    tell(&process, signal);
                    asked.insert(process.identity(), process.name);
                }
            }
        }
    }

    /// Kills everyone, and those that were born meanwhile, until nobody is left or it takes too long.
    async fn kill_all(&mut self) -> Ending {
        let until = Instant::now() + KILLED_WITHIN;
        let mut killed = BTreeMap::new();
        loop {
            let living = self.living();
            // A process that keeps forking and exiting is elsewhere by now; its process group is not. Groups of workers are
            // shared with nobody, because each began a session; one that has not come that far is in the launcher's own.
            let groups: BTreeSet<_> = living.iter().map(Process::group).filter(|group| *group != getpgrp()).collect();
            for group in groups {
                _ = killpg(group, Signal::SIGKILL);
            }
            for process in living {
                _ = kill(process.id(), Signal::SIGKILL);
                killed.entry(process.identity()).or_insert(process);
            }
            self.collect();
            if self.gone || Instant::now() >= until {
                let left = if self.gone { Vec::new() } else { self.living() };
                return Ending { took: Duration::ZERO, killed: killed.into_values().collect(), left };
            }
            // Woken or not, the tree is looked at again.
            _ = timeout(LOOK_AGAIN, self.reaper.changed()).await;
        }
    }
}

fn tell(process: &Process, signal: Signal) {
    match kill(process.id(), signal) {
        // A stopped process sees the signal only when it goes on.
        Ok(()) => _ = kill(process.id(), Signal::SIGCONT),
        Err(Errno::ESRCH) => {}
        Err(error) => tracing::warn!(pid = process.pid, name = process.name, %error, "cannot send {signal}"),
    }
}
