//! How long training pauses for the remaining workers when one of three is killed: `examples/torch-survive` under
//! `flexor launch`, against replica groups of torchft and against stock torchrun.
//!
//! All sides make short steps on the CPU. The clock runs from just before SIGKILL until the later of the two others has
//! made a step without the killed worker. Torchrun restarts all workers, so its clock ends at the first step of the
//! restarted world.

mod ours;
mod steps;
mod torchft;
mod torchrun;

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use flexor_testbed::{Torch, Torchft};

use self::torchft::JoinTimeout;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

/// The default number of repeats.
pub(super) const REPEATS: u32 = 3;

/// Seconds until the first step of the survivors.
const MARK: f64 = 0.5;

/// The ranks to kill, of three.
const RANKS: [usize; 2] = [1, 0];

/// One competitor.
enum Side {
    Flexor { program: PathBuf, example: PathBuf },
    Torchft { torchft: Torchft, join: JoinTimeout },
    Torchrun,
}

impl Side {
    /// Kills the worker of this rank once; seconds until the others have made a step.
    fn play(&self, torch: &Torch, rank: usize) -> Result<f64> {
        match self {
            Side::Flexor { program, example } => ours::play(torch, program, example, rank),
            Side::Torchft { torchft, join } => torchft::play(torch, torchft, *join, rank),
            Side::Torchrun => torchrun::play(torch, rank),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Side::Flexor { .. } => f.write_str("flexor launch"),
            Side::Torchft { join, .. } => write!(f, "torchft {}, {join}", Torchft::VERSION),
            Side::Torchrun => f.write_str("torchrun, sharing off"),
        }
    }
}

/// Runs everything whose metric contains `filter`; the sides alternate.
pub(super) fn run(repeats: u32, filter: Option<&str>) -> Result<Vec<Row>> {
    let metrics = RANKS.map(|rank| (rank, format!("SIGKILL of rank {rank} of 3: first step of the survivors")));
    let chosen: Vec<_> =
        metrics.into_iter().filter(|(_, metric)| filter.is_none_or(|wanted| metric.contains(wanted))).collect();
    ensure!(!chosen.is_empty(), "no part has '{}' in its name; there are 'rank 1' and 'rank 0'", filter.unwrap_or(""));
    let root = project_root()?;
    let program = compile::flexor(&root, "release")?;
    let torch = Torch::ensure()?;
    let ours = Side::Flexor { program, example: root.join("examples/torch-survive/train.py") };
    let peers = peers();
    let mut rows = Vec::new();
    for (rank, metric) in chosen {
        let mut times = vec![Vec::new(); 1 + peers.len()];
        for _ in 0..repeats {
            for (side, times) in std::iter::once(&ours).chain(&peers).zip(&mut times) {
                let seconds = side.play(&torch, rank).with_context(|| format!("{metric}, {side}"))?;
                eprintln!("{metric}, {side}: {seconds:.3} s");
                times.push(seconds);
            }
        }
        for (peer, theirs) in peers.iter().zip(&times[1..]) {
            rows.push(Row::seconds_within(&metric, &times[0], &peer.to_string(), theirs, MARK)?);
        }
    }
    Ok(rows)
}

/// Those that can be had on this machine.
fn peers() -> Vec<Side> {
    let mut peers = Vec::new();
    match Torchft::ensure() {
        Ok(torchft) => peers.extend(
            [JoinTimeout::AsDocumented, JoinTimeout::Shortest]
                .map(|join| Side::Torchft { torchft: torchft.clone(), join }),
        ),
        Err(error) => eprintln!("skipped: torchft, so that torchrun is the only peer ({error})"),
    }
    peers.push(Side::Torchrun);
    peers
}
