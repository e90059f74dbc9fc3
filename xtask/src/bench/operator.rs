//! The operator on a real API server with fake nodes: how fast it replaces pods, and what it costs.
//!
//! Times come from a watch of this program's own ([`PodWatch`]), never from the operator. There is no peer to start:
//! the controllers that Flexor replaces need their own images. Where a race is possible it is against a bare client
//! that creates the same pods ([`bare_client`]), which shows the pace of the API server itself.

pub(super) mod api;
mod audit;
mod bare_client;
mod burst;
mod crowd;
mod jobs;
mod pod_watch;
mod replacement;
mod requests;
mod world;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use tokio::runtime::{Builder, Runtime};

use self::pod_watch::PodWatch;
use self::world::World;
use super::row::Row;
use super::sizes::Sizes;
use crate::compile;
use crate::tree::project_root;

/// How often pods are deleted at once, and how often the operator is restarted.
pub(super) const REPEATS: u32 = 3;

/// `samples`: pods deleted one at a time. `relaunches`: those whose requests are counted. `jobs` of 16 pods run beside
/// `foreign` pods, and one job has `pods`. The defaults of the last three keep the whole race to about ten minutes on two
/// cores; the operator is promised for 1,000 jobs and 10,000 pods.
pub(super) const SIZES: &[(&str, u32)] =
    &[("samples", 100), ("relaunches", 16), ("jobs", 250), ("foreign", 5000), ("pods", 5000)];

/// What all parts have in common.
struct Setup {
    /// The program under test.
    flexor: PathBuf,
    root: PathBuf,
    repeats: u32,
    sizes: Sizes,
    runtime: Runtime,
}

/// A part of the bench: its name for the filter, and its function.
type Part = (&'static str, fn(&Setup) -> Result<Vec<Row>>);

const PARTS: [Part; 5] = [
    ("replacing", replacement::run),
    ("burst", burst::run),
    ("requests", requests::run),
    ("jobs", crowd::many_jobs),
    ("one-job", crowd::one_job),
];

pub(super) fn run(repeats: u32, filter: Option<&str>, sizes: &Sizes) -> Result<Vec<Row>> {
    let parts: Vec<&Part> = PARTS.iter().filter(|(name, _)| filter.is_none_or(|part| name.contains(part))).collect();
    if parts.is_empty() {
        bail!("no part has that in its name; there are: {}", PARTS.map(|(name, _)| name).join(", "));
    }
    let root = project_root()?;
    let flexor = compile::flexor(&root, "release")?;
    let runtime = Builder::new_multi_thread().enable_all().build().context("cannot start tokio")?;
    let setup = Setup { flexor, root, repeats, sizes: sizes.clone(), runtime };
    let mut rows = Vec::new();
    for (name, run) in parts {
        rows.extend(run(&setup).with_context(|| format!("the part {name}"))?);
    }
    Ok(rows)
}
