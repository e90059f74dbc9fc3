//! Torch's own handlers, unmodified, in one Python process: what agents do, without the agents.
//!
//! Sixty-four of them share one interpreter, which is a large part of the time on either side.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flexor_testbed::Torch;
use serde::Deserialize;

use crate::bench::our_master::JOB;

const SCRIPT: &str = include_str!("handlers.py");

/// How long all needed, in seconds; infinite where they were not waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meetings {
    /// Until all knew their rank.
    pub(super) first: f64,
    /// The same when all leave that world and meet again.
    pub(super) again: f64,
}

impl Meetings {
    /// Of a crowd that was not waited for.
    pub(super) const NEVER: Meetings = Meetings { first: f64::INFINITY, again: f64::INFINITY };
}

/// Lets this many handlers meet at the store `HOST:PORT`. A meeting that is not over after `limit` takes forever.
pub(super) fn meet(torch: &Torch, endpoint: &str, nodes: usize, limit: Duration) -> Result<Meetings> {
    #[derive(Deserialize)]
    struct Printed {
        first: Option<f64>,
        again: Option<f64>,
    }
    let mut command = torch.command();
    command.args(["-W", "ignore", "-c", SCRIPT, endpoint, JOB, &nodes.to_string(), &limit.as_secs().to_string()]);
    command.stdin(Stdio::null());
    let output = command.output().context("cannot start torch's Python")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the handlers did not meet at {endpoint}: {}", complaint.trim());
    let printed: Printed =
        serde_json::from_slice(&output.stdout).context("the times of the handlers cannot be read")?;
    let seconds = |time: Option<f64>| time.unwrap_or(f64::INFINITY);
    Ok(Meetings { first: seconds(printed.first), again: seconds(printed.again) })
}
