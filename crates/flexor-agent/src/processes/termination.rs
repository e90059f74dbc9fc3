//! The signal ladder: processes get a signal, and after a grace period SIGKILL, until nothing is left of a program.
//!
//! Every descendant of a program is part of it, in whatever session and however often forked. During the grace period
//! nothing polls: the last process is a child of ours, as every orphan is, and its end wakes us. Only afterwards, when
//! processes must not escape by forking, the tree is read again and again, for a bounded time.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use tokio::time::{Instant, timeout, timeout_at};

use super::process_tag::StartId;
use super::snapshot::ProcessSnapshot;
use super::supervisor::{ProcessKey, Processes, Selection};
use super::tree::Process;

/// How long a killed process may take to vanish. One that takes longer is stuck in the kernel.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// The first pause before the tree is read for processes that did not get the signal.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longer grace periods are cut to this: the clock cannot represent every instant.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);
/// The pause before the tree is read for processes that escaped a kill by forking.
const KILL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the output of ended processes is read.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// How processes are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// The first signal: the one that we got, or SIGTERM.
    pub signal: Signal,
    /// How long the processes may take before they are killed. Zero kills at once.
    pub grace: Duration,
}

impl Default for Ladder {
    fn default() -> Self {
        Self { signal: Signal::SIGTERM, grace: Duration::from_secs(30) }
    }
}

/// How ending some programs went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Termination {
    /// From the first signal to the last process.
    pub took: Duration,
    /// Processes that outlived the grace period and were killed.
    pub killed: Vec<Process>,
    /// Processes that even SIGKILL did not end: stuck in the kernel, or another user's.
    pub left: Vec<Process>,
}

impl Processes {
    /// Ends one program with its descendants, and returns as soon as nothing is left of it. Other programs go on.
    ///
    /// Call it also when the program has ended by itself: it may have left daemons, and the rest of its output is written
    /// here. A caller that drops this future (on a second signal, say) calls again with less grace. Exits come out of
    /// [`Processes::next_exit`] as always.
    pub async fn end(&mut self, key: ProcessKey, ladder: Ladder) -> Termination {
        self.end_some(&[key], ladder).await
    }

    /// Ends some programs together, as [`Processes::end`] ends one.
    pub async fn end_some(&mut self, keys: &[ProcessKey], ladder: Ladder) -> Termination {
        self.terminate(Selection::Keys(keys), ladder).await
    }

    /// Ends all programs, as [`Processes::end`] ends one.
    pub async fn end_all(&mut self, ladder: Ladder) -> Termination {
        self.terminate(Selection::All, ladder).await
    }

    async fn terminate(&mut self, selection: Selection<'_>, ladder: Ladder) -> Termination {
        let begun = Instant::now();
        if !ladder.grace.is_zero() {
            self.signal_all(selection, ladder.signal, begun + ladder.grace.min(LONGEST_GRACE)).await;
        }
        let mut termination = self.kill(selection).await;
        termination.took = begun.elapsed();
        let selected = self.starts.iter().filter(|(_, start)| selection.includes(start.key));
        let selected: Vec<StartId> = selected.map(|(start_id, _)| *start_id).collect();
        self.pumps.finish(&selected, DRAIN_TIMEOUT).await;
        if termination.left.is_empty() {
            self.starts.retain(|start_id, _| !selected.contains(start_id));
        }
        termination
    }

    /// Sends `signal` to all processes and waits until they are gone or the time is up.
    ///
    /// Two kinds of processes get the signal later. First, processes that we had not seen when their parent died of the
    /// signal. (A process with a living parent is left to that parent, which may need it for an orderly end.) Second,
    /// processes that have executed another program since: between fork and exec a signal goes to a handler of the old
    /// program and is lost. Nothing wakes us for these, so the tree is read after ever longer pauses.
    async fn signal_all(&mut self, selection: Selection<'_>, signal: Signal, until: Instant) {
        // The name of each process's program when it got the signal.
        let mut signalled = BTreeMap::new();
        let mut pause = FIRST_PAUSE;
        let mut first = true;
        while let Some(snapshot) = self.snapshot_if_any(selection) {
            for process in snapshot.living() {
                let is_due = match signalled.get(&process.identity()) {
                    // A program that we started may rename itself; it has the signal already.
                    Some(program) => *program != process.name && !self.has_started(process),
                    None => first || process.is_child(),
                };
                if is_due {
                    send(process, signal);
                    signalled.insert(process.identity(), process.name.clone());
                }
            }
            first = false;
            if Instant::now() >= until {
                return;
            }
            let wakeup = (Instant::now() + pause).min(until);
            if timeout_at(wakeup, self.watch.changed()).await.is_err() {
                pause = pause.saturating_mul(2);
            }
        }
    }

    /// Kills all processes, also those that start meanwhile, until none is left or the time is up.
    async fn kill(&mut self, selection: Selection<'_>) -> Termination {
        let until = Instant::now() + KILL_TIMEOUT;
        let mut killed = BTreeMap::new();
        let mut left = Vec::new();
        while let Some(snapshot) = self.snapshot_if_any(selection) {
            if Instant::now() >= until {
                left = snapshot.living().cloned().collect();
                break;
            }
            for group in snapshot.groups() {
                _ = killpg(group, Signal::SIGKILL);
            }
            for process in snapshot.living() {
                _ = kill(process.id(), Signal::SIGKILL);
                killed.entry(process.identity()).or_insert_with(|| process.clone());
            }
            // Woken or not, the tree is read again.
            _ = timeout(KILL_INTERVAL, self.watch.changed()).await;
        }
        Termination { took: Duration::ZERO, killed: killed.into_values().collect(), left }
    }

    /// A snapshot of what is left; `None` when nothing is left and every exit was noted.
    fn snapshot_if_any(&mut self, selection: Selection<'_>) -> Option<ProcessSnapshot> {
        self.collect();
        let is_running = self.starts.values().any(|start| start.running && selection.includes(start.key));
        let snapshot = self.snapshot(selection);
        (is_running || !snapshot.is_empty()).then_some(snapshot)
    }
}

fn send(process: &Process, signal: Signal) {
    match kill(process.id(), signal) {
        // A stopped process handles the signal only when it continues.
        Ok(()) => _ = kill(process.id(), Signal::SIGCONT),
        Err(Errno::ESRCH) => {}
        Err(error) => tracing::warn!(pid = process.pid, name = process.name, %error, "cannot send {signal}"),
    }
}
