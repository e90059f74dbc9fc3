//! The same training as replica groups of torchft: a process for each, and a lighthouse.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use flexor_testbed::{Torch, Torchft};

use super::steps::{ALL, SLEEP, StepLog, without};

const LIGHTHOUSE: &str = include_str!("lighthouse.py");
const REPLICA: &str = include_str!("replica.py");

/// How long a lighthouse waits for replica groups that are alive by their heartbeats and do not ask for a quorum. Where
/// that is longer than the heartbeat timeout (5 s), a killed group costs this time.
#[derive(Debug, Clone, Copy)]
pub(super) enum JoinTimeout {
    /// As the command in torchft's README has it.
    AsDocumented,
    /// A tick of the lighthouse; a group that is slower than the first by this much misses the step.
    Shortest,
}

impl JoinTimeout {
    fn milliseconds(self) -> u32 {
        match self {
            JoinTimeout::AsDocumented => 10_000,
            JoinTimeout::Shortest => 100,
        }
    }
}

impl fmt::Display for JoinTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "join {} s", f64::from(self.milliseconds()) / 1000.0)
    }
}

/// A process, ended with its guard.
struct ReplicaProcess(Child);

impl Drop for ReplicaProcess {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

pub(super) fn play(torch: &Torch, torchft: &Torchft, join: JoinTimeout, rank: usize) -> Result<f64> {
    let folder = tempfile::tempdir().context("cannot make a folder for torchft")?;
    let folder = folder.path();
    let program = |text: &str, name: &str| -> Result<Command> {
        let file = folder.join(format!("{name}.py"));
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = torchft.command(torch);
        command.arg(file).env("OMP_NUM_THREADS", "1").env("GLOO_SOCKET_IFNAME", "lo").stdin(Stdio::null());
        command.stderr(File::create(folder.join(format!("{name}.log")))?);
        Ok(command)
    };
    let mut command = program(LIGHTHOUSE, "lighthouse")?;
    command.arg(join.milliseconds().to_string()).stdout(Stdio::piped());
    let mut lighthouse = ReplicaProcess(command.spawn().context("cannot start a lighthouse")?);
    let mut port = String::new();
    if let Some(stdout) = lighthouse.0.stdout.take() {
        BufReader::new(stdout).read_line(&mut port)?;
    }
    let (mut replicas, mut logs) = (Vec::new(), Vec::new());
    for number in 0..ALL {
        let log = StepLog(folder.join(format!("steps-{number}")));
        let mut command = program(REPLICA, &format!("replica-{number}"))?;
        command.arg(number.to_string()).arg(&log.0).arg(SLEEP);
        command.env("TORCHFT_LIGHTHOUSE", format!("http://127.0.0.1:{}", port.trim())).stdout(Stdio::null());
        replicas.push(ReplicaProcess(command.spawn().context("cannot start a replica group")?));
        logs.push(log);
    }
    without(rank, &logs).with_context(|| log_tails(folder))
}

/// How the logs end, for an error.
fn log_tails(folder: &Path) -> String {
    let log = |name: String| {
        let text = fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(20).collect();
        format!("{name} said\n{}\n", lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
    };
    std::iter::once("lighthouse".to_owned())
        .chain((0..ALL).map(|number| format!("replica-{number}")))
        .map(log)
        .collect()
}
