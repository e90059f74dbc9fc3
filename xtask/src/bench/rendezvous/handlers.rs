//! Torch's own handlers, unmodified, in Python processes: what agents do, without the agents.
//!
//! Handlers of one process share an interpreter, which is a large part of the time on either side: a handler spends 7
//! ms on inspecting its own stack for its events, whatever the store does. The script is a file, as a program of users
//! is: torch takes three times as long for the stack of a `-c` program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flexor_testbed::Torch;

use crate::bench::our_master::JOB;

const SCRIPT: &str = include_str!("handlers.py");

/// How long all needed, in seconds; infinite where they were not waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct RendezvousTimes {
    /// Until all knew their rank.
    pub(super) first: f64,
    /// The same when all leave that world and rejoin.
    pub(super) again: f64,
}

impl RendezvousTimes {
    /// Of a crowd that was not waited for.
    pub(super) const NEVER: RendezvousTimes = RendezvousTimes { first: f64::INFINITY, again: f64::INFINITY };
}

/// Runs a rendezvous of this many handlers, spread over this many processes, at the store `HOST:PORT`. One that exceeds
/// `limit` counts as infinite.
pub(super) fn meet(
    torch: &Torch,
    endpoint: &str,
    nodes: usize,
    processes: usize,
    limit: Duration,
) -> Result<RendezvousTimes> {
    ensure!(nodes.is_multiple_of(processes), "{nodes} handlers cannot be shared out to {processes} processes");
    let folder = tempfile::tempdir().context("cannot make a folder for the script")?;
    let script = folder.path().join("handlers.py");
    std::fs::write(&script, SCRIPT).context("cannot write the script")?;
    let start = || -> Result<Interpreter> {
        let mut command = torch.command();
        command.args(["-W", "ignore"]).arg(&script).args([endpoint, JOB, &nodes.to_string()]);
        command.args([&(nodes / processes).to_string(), &limit.as_secs().to_string()]);
        Interpreter::of(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
    };
    let mut interpreters = Vec::new();
    for _ in 0..processes {
        interpreters.push(start().context("cannot start torch's Python")?);
    }
    let first = meeting(&mut interpreters, nodes)?;
    let again = if first.is_finite() { meeting(&mut interpreters, nodes)? } else { f64::INFINITY };
    Ok(RendezvousTimes { first, again })
}

/// Seconds from the start signal until the last handler knew its rank.
fn meeting(interpreters: &mut [Interpreter], nodes: usize) -> Result<f64> {
    for interpreter in &mut *interpreters {
        let line = interpreter.line()?;
        ensure!(line == "ready", "a process with torch's handlers said {line:?} instead of \"ready\"");
    }
    let start = Instant::now();
    for interpreter in &mut *interpreters {
        writeln!(interpreter.stdin)?;
    }
    let mut all = Vec::new();
    for interpreter in &mut *interpreters {
        let line = interpreter.line()?;
        let ranks: Option<Vec<usize>> =
            serde_json::from_str(&line).with_context(|| format!("cannot read the ranks in {line:?}"))?;
        match ranks {
            Some(ranks) => all.extend(ranks),
            None => return Ok(f64::INFINITY),
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    all.sort_unstable();
    ensure!(all == (0..nodes).collect::<Vec<_>>(), "the ranks are not those of one world: {all:?}");
    Ok(seconds)
}

/// A Python process with some of the handlers, ended with its guard.
struct Interpreter {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Interpreter {
    fn of(mut child: Child) -> Result<Interpreter> {
        let stdin = child.stdin.take().context("no way to write to the process")?;
        let stdout = BufReader::new(child.stdout.take().context("no way to read from the process")?);
        Ok(Interpreter { child, stdin, stdout })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).context("a process with torch's handlers cannot be read")?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
