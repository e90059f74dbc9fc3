//! The signal ladder: first asked, then killed, until nothing is left of a program, or of all.
//!
//! Everything that descends from a program is part of it, in whatever session and however often forked. Nothing polls
//! for the end of those that were asked: the last of them is a child of ours, as every orphan is, and its end wakes us.
//! Only after the grace, when processes that fork must not get away, the tree is walked again and again, for a bounded
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use tokio::time::{Instant, timeout, timeout_at};

use super::lineage::Serial;
use super::look::Look;
use super::supervised::{ProcessKey, Processes, Whose};
use super::tree::Process;

/// How long a killed process may take to vanish; longer is for those stuck in the kernel, which cannot be helped.
const KILLED_WITHIN: Duration = Duration::from_secs(10);
/// How soon to look for the first time for processes that did not get the signal.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// More grace than this is not counted; every clock has an end.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);
/// How soon to look again for processes that escaped a kill by forking.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long to go on reading the output of processes that are gone.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How processes are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// What the processes are asked with: the signal that we got, or SIGTERM.
    pub signal: Signal,
    /// How long they may take before they are killed. Zero kills at once.
    pub grace: Duration,
}

impl Default for Ladder {
    fn default() -> Self {
        Self { signal: Signal::SIGTERM, grace: Duration::from_secs(30) }
    }
}

/// How an end went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ending {
    /// From the first signal to the last process.
    pub took: Duration,
    /// Those that outlived the grace and were killed.
    pub killed: Vec<Process>,
    /// Those that even a kill did not end: stuck in the kernel, or another user's.
    pub left: Vec<Process>,
}

impl Processes {
    /// Ends whatever is left of one program, and comes back as soon as nothing is. The others go on.
    ///
    /// Also to be called when the program has ended by itself: it may have left daemons, and the last of its output is
    /// written here. A caller that gives up this wait (on a second signal, say) calls again with less grace. Exits are
    /// given out by [`Processes::next_exit`] as ever.
    pub async fn end(&mut self, key: ProcessKey, ladder: Ladder) -> Ending {
        self.end_some(&[key], ladder).await
    }

    /// Ends whatever is left of some programs, together, as [`Processes::end`] does of one.
    pub async fn end_some(&mut self, keys: &[ProcessKey], ladder: Ladder) -> Ending {
        self.walk_down(Whose::These(keys), ladder).await
    }

    /// Ends whatever is left of all programs, as [`Processes::end`] does of one.
    pub async fn end_all(&mut self, ladder: Ladder) -> Ending {
        self.walk_down(Whose::All, ladder).await
    }

    async fn walk_down(&mut self, whose: Whose<'_>, ladder: Ladder) -> Ending {
        let begun = Instant::now();
        if !ladder.grace.is_zero() {
            self.ask(whose, ladder.signal, begun + ladder.grace.min(LONGEST_GRACE)).await;
        }
        let mut ending = self.kill(whose).await;
        ending.took = begun.elapsed();
        let theirs = self.starts.iter().filter(|(_, start)| whose.includes(start.key));
        let theirs: Vec<Serial> = theirs.map(|(serial, _)| *serial).collect();
        self.pumps.finish(&theirs, LAST_WORDS).await;
        if ending.left.is_empty() {
            self.starts.retain(|serial, _| !theirs.contains(serial));
        }
        ending
    }

    /// Sends `signal` to all of them and waits until they are gone or the time is up.
    ///
    /// Two kinds of processes are asked later. Those that were started by one that died of the signal before they were
    /// seen: nobody else will ask them. (Those whose parent lives are left to it; they may be what it does to end well.)
    /// And those that became another program since they were asked: between fork and exec a signal goes to a handler of
    /// the old program, and is lost. Nothing wakes us for these, so the tree is looked at after ever longer pauses.
    async fn ask(&mut self, whose: Whose<'_>, signal: Signal, until: Instant) {
        // The program that each process was when it was asked.
        let mut asked = BTreeMap::new();
        let mut pause = FIRST_PAUSE;
        let mut first = true;
        while let Some(look) = self.look_for_some(whose) {
            for process in look.living() {
                let due = match asked.get(&process.identity()) {
                    // Those that were started here are theirs to name; they were asked as what they are.
                    Some(program) => *program != process.name && !self.has_started(process),
                    None => first || process.is_child(),
                };
                if due {
                    tell(process, signal);
                    asked.insert(process.identity(), process.name.clone());
                }
            }
            first = false;
            if Instant::now() >= until {
                return;
            }
            let look_again = (Instant::now() + pause).min(until);
            if timeout_at(look_again, self.watch.changed()).await.is_err() {
                pause = pause.saturating_mul(2);
            }
        }
    }

    /// Kills all of them, and those that were born meanwhile, until nobody is left or it takes too long.
    async fn kill(&mut self, whose: Whose<'_>) -> Ending {
        let until = Instant::now() + KILLED_WITHIN;
        let mut killed = BTreeMap::new();
        let mut left = Vec::new();
        while let Some(look) = self.look_for_some(whose) {
            if Instant::now() >= until {
                left = look.living().cloned().collect();
                break;
            }
            for group in look.groups() {
                _ = killpg(group, Signal::SIGKILL);
            }
            for process in look.living() {
                _ = kill(process.id(), Signal::SIGKILL);
                killed.entry(process.identity()).or_insert_with(|| process.clone());
            }
            // Woken or not, the tree is looked at again.
            _ = timeout(LOOK_AGAIN, self.watch.changed()).await;
        }
        Ending { took: Duration::ZERO, killed: killed.into_values().collect(), left }
    }

    /// Looks at what there is of them; `None` when nothing is left and every exit was noted.
    fn look_for_some(&mut self, whose: Whose<'_>) -> Option<Look> {
        self.collect();
        let runs = self.starts.values().any(|start| start.running && whose.includes(start.key));
        let look = self.look(whose);
        (runs || !look.nobody()).then_some(look)
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
