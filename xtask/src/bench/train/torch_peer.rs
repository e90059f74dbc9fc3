//! The peer: one PyTorch process with sparse embeddings and one thread.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use flexor_testbed::Torch;
use serde::Deserialize;

use super::job::{BATCH, DIM, HIDDEN};

const SCRIPT: &str = include_str!("torch_loop.py");

/// The results with both ways of feeding it.
#[derive(Debug, Deserialize)]
pub(super) struct PeerResults {
    /// Lines of the file are read and parsed in the loop, by the same thread, as our worker does.
    pub(super) reading: PeerResult,
    /// All batches are prepared: only the computation counts.
    pub(super) in_memory: PeerResult,
}

/// The result of training.
#[derive(Debug, Deserialize)]
pub(super) struct PeerResult {
    pub(super) records_per_second: f64,
    pub(super) cpu_us_per_record: f64,
    /// The mean loss of the last hundred batches.
    pub(super) loss: f64,
}

/// Trains on a file, in both ways.
pub(super) fn train(torch: &Torch, data: &Path) -> Result<PeerResults> {
    let mut command = torch.command();
    command.args(["-c", SCRIPT]).arg(data).args([&BATCH.to_string(), &DIM.to_string(), HIDDEN]);
    command.env("OMP_NUM_THREADS", "1").stdin(Stdio::null());
    let output = command.output().context("cannot start torch's Python")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "PyTorch's loop failed: {}", complaint.trim());
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().context("PyTorch's loop said nothing")?;
    serde_json::from_str(last).with_context(|| format!("PyTorch's loop said {last}"))
}
