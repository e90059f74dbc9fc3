//! DLRover's own splitter for datasets that are shuffled record by record: its work before the first task.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use flexor_testbed::Dlrover;
use serde::Deserialize;

use super::dataset::BATCH;

const SCRIPT: &str = include_str!("splitter.py");

/// Its name in results.
pub(super) const NAME: &str = "DLRover 0.6.1 splitter";

/// The cost of one epoch.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct SplitCost {
    pub(super) cpu_seconds: f64,
    pub(super) growth_mib: f64,
}

/// Splits a dataset in its own process.
pub(super) fn run(dlrover: &Dlrover, records: u64) -> Result<SplitCost> {
    let mut command = dlrover.command();
    command.args(["-c", SCRIPT, &records.to_string(), &BATCH.to_string()]).stdin(Stdio::null());
    let output = command.output().context("cannot start DLRover's Python")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "DLRover's splitter failed: {}", complaint.trim());
    // Its logger may write to the standard output too.
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().context("DLRover's splitter said nothing")?;
    serde_json::from_str(last).with_context(|| format!("DLRover's splitter said {last}"))
}
