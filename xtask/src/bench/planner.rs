//! The cluster's planner: how well it shares a cluster, and how long it thinks.
//!
//! [`model`] repeats EDL's published experiments on the model of `flexor sim`, under all policies. [`plans`] times plans
//! of a random [`cluster`] that is full, and in which something changes before each plan.

mod cluster;
mod jobs;
mod model;
mod plans;
mod random;

use anyhow::{Context, Result, bail};

use super::row::Row;
use super::sizes::Sizes;

/// How many random clusters there are.
pub(super) const REPEATS: u32 = 3;

/// Random clusters have so many `nodes` and `jobs`, and the seeds from `seed` on. Each is planned `plans` times.
pub(super) const SIZES: &[(&str, u32)] = &[("nodes", 1000), ("jobs", 1000), ("plans", 200), ("seed", 1)];

/// What both parts have in common.
struct Setup {
    repeats: u32,
    sizes: Sizes,
}

/// A part of the bench: its name for the filter, and its function.
type Part = (&'static str, fn(&Setup) -> Result<Vec<Row>>);

const PARTS: [Part; 2] = [("model", model::run), ("plans", plans::run)];

pub(super) fn run(repeats: u32, filter: Option<&str>, sizes: &Sizes) -> Result<Vec<Row>> {
    let parts: Vec<&Part> = PARTS.iter().filter(|(name, _)| filter.is_none_or(|part| name.contains(part))).collect();
    if parts.is_empty() {
        bail!("no part has that in its name; there are: {}", PARTS.map(|(name, _)| name).join(", "));
    }
    let setup = Setup { repeats, sizes: sizes.clone() };
    let mut rows = Vec::new();
    for (name, run) in parts {
        rows.extend(run(&setup).with_context(|| format!("the part {name}"))?);
    }
    Ok(rows)
}
