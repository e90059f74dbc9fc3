//! The step logs of the training programs, and the kill of one of them.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;

/// How many processes there are, before one is killed.
pub(super) const ALL: usize = 3;

/// Seconds that a program waits in each of its steps.
pub(super) const SLEEP: &str = "0.05";

/// Steps before the kill, so that slow first steps are over.
const WARM_UP: usize = 20;

/// The deadline of any wait. All processes import torch at once.
const DEADLINE: Duration = Duration::from_secs(120);

/// The file in which one process records its steps: a line of JSON for each.
pub(super) struct StepLog(pub(super) PathBuf);

#[derive(Debug, Clone, Copy, Deserialize)]
struct Step {
    /// Seconds since 1970.
    t: f64,
    step: u64,
    rank: usize,
    world: usize,
    pid: i32,
}

/// Kills the process of this rank once all make steps together, and waits until all others have made one after it.
/// Returns the seconds in between.
pub(super) fn without(rank: usize, logs: &[StepLog]) -> Result<f64> {
    let mut last = Vec::new();
    for log in logs {
        last.push(log.await_step("to make steps together", |steps| {
            let together: Vec<_> = steps.iter().filter(|step| step.world == ALL).collect();
            together.get(WARM_UP).and(together.last()).map(|step| **step)
        })?);
    }
    let victim =
        last.iter().position(|step| step.rank == rank).with_context(|| format!("no process has rank {rank}"))?;
    let killed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    kill(Pid::from_raw(last[victim].pid), Signal::SIGKILL).context("cannot kill a worker")?;
    let mut back = killed;
    for (_, log) in logs.iter().enumerate().filter(|(position, _)| *position != victim) {
        let first = log.await_step("to make a step after one was killed", |steps| {
            // Either without it, or together with its successor, if that was waited for.
            let successor = logs[victim].read().ok()?.into_iter().find(|step| step.pid != last[victim].pid);
            let is_after =
                |step: &&Step| step.world == ALL - 1 || successor.is_some_and(|successor| step.step >= successor.step);
            steps.iter().filter(|step| step.t > killed).find(is_after).copied()
        })?;
        back = back.max(first.t);
    }
    Ok(back - killed)
}

impl StepLog {
    /// The value that `find` finds, as soon as it does. `what` completes the sentence "waited for a process …".
    fn await_step(&self, what: &str, find: impl Fn(&[Step]) -> Option<Step>) -> Result<Step> {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(step) = find(&self.read()?) {
                return Ok(step);
            }
            if Instant::now() > end {
                bail!("waited {DEADLINE:?} for a process {what}; its steps are in {}", self.0.display());
            }
            // The file holds the times of the steps, so the polling interval does not matter.
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn read(&self) -> Result<Vec<Step>> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).with_context(|| format!("not a step: {line}"))).collect()
    }
}
