//! What a launcher adds to the start of a program, in time and memory: ours against torchrun and DLRover's agent.
//!
//! Each launcher starts eight processes of a [program] that only records its start. Each repeat subtracts the time of
//! starting them by hand. The rest is the launcher's own: its start, the rendezvous, and the starts of the processes.

mod launcher;
mod program;

use anyhow::Result;
use flexor_testbed::{Dlrover, Torch};

use self::launcher::{LaunchMeasurement, Launcher};
use self::program::PROCESSES;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

/// Seconds beyond the program's own start.
const OVERHEAD_MARK: f64 = 0.1;
/// The launcher's memory, in MiB.
const MEMORY_MARK: f64 = 10.0;

/// A launcher with its samples.
struct LauncherSamples {
    launcher: Launcher,
    overheads: Vec<f64>,
    peaks: Vec<f64>,
}

pub(super) fn run(repeats: u32) -> Result<Vec<Row>> {
    let flexor = compile::flexor(&project_root()?, "release")?;
    let (torch, dlrover) = (Torch::ensure()?, Dlrover::ensure()?);
    let mut ours = [Launcher::FlexorAlone { flexor: flexor.clone() }, Launcher::FlexorAtMaster { flexor }]
        .map(LauncherSamples::new);
    let mut peers = [Launcher::Torchrun { torch: torch.clone() }, Launcher::DlroverAgent { torch, dlrover }]
        .map(LauncherSamples::new);
    for raced in ours.iter_mut().chain(&mut peers) {
        // The first launch fills caches, and shows whether the launcher works at all.
        raced.launcher.launch()?;
    }
    for _ in 0..repeats {
        let alone = program::started_alone()?;
        eprintln!("{PROCESSES} processes started by hand: {alone:.3} s");
        for raced in ours.iter_mut().chain(&mut peers) {
            raced.repeat(alone)?;
        }
    }
    let mut rows = Vec::new();
    for one in &ours {
        for peer in &peers {
            rows.extend(one.against(peer)?);
        }
    }
    Ok(rows)
}

impl LauncherSamples {
    fn new(launcher: Launcher) -> LauncherSamples {
        LauncherSamples { launcher, overheads: Vec::new(), peaks: Vec::new() }
    }

    /// Launches once more; `alone` is the time of the program without a launcher.
    fn repeat(&mut self, alone: f64) -> Result<()> {
        let LaunchMeasurement { seconds, peak_mib, own_mib } = self.launcher.launch()?;
        let name = self.launcher.name();
        eprintln!("{name}: {seconds:.3} s until {PROCESSES} processes, {peak_mib:.1} MiB ({own_mib:.1} MiB its own)");
        self.overheads.push(seconds - alone);
        self.peaks.push(peak_mib);
        Ok(())
    }

    fn against(&self, peer: &LauncherSamples) -> Result<[Row; 2]> {
        let (name, peer_name) = (self.launcher.name(), peer.launcher.name());
        let time = format!("{name}: until {PROCESSES} processes are in the world, beyond their own start");
        let memory = format!("{name}: memory of the launcher (VmHWM)");
        Ok([
            Row::seconds_within(&time, &self.overheads, peer_name, &peer.overheads, OVERHEAD_MARK)?,
            Row::cost_within(&memory, "MiB", &self.peaks, peer_name, &peer.peaks, MEMORY_MARK)?,
        ])
    }
}
