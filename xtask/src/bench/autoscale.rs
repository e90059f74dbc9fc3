//! Jobs that size themselves: how soon they are as fast as they can be, and what it costs.
//!
//! [`simulated`] plays random jobs under virtual time, each of them sized by our rules and by DLRover's. [`waiting`] runs the
//! tutorial's job on this machine, whose workers wait for their data; [`cpu_bound`] a job that needs nothing but the
//! machine's cores, against every size set by hand.

mod cpu_bound;
mod measured_run;
mod simulated;
mod waiting;

use anyhow::{Context, Result, bail};

use super::row::Row;
use super::sizes::Sizes;

/// How often each job runs on this machine.
pub(super) const REPEATS: u32 = 3;

/// `jobs` are simulated, with the seeds from `seed` on, for `seconds` of virtual time each. A CPU-bound job runs by itself
/// for `settle` seconds, and is then measured for `measure` seconds.
pub(super) const SIZES: &[(&str, u32)] =
    &[("jobs", 100), ("seed", 0), ("seconds", 1800), ("settle", 60), ("measure", 15)];

/// What all parts have in common.
struct Setup {
    repeats: u32,
    sizes: Sizes,
}

/// A part of the bench: its name for the filter, and its function.
type Part = (&'static str, fn(&Setup) -> Result<Vec<Row>>);

const PARTS: [Part; 3] = [("simulated", simulated::run), ("waiting", waiting::run), ("cpu-bound", cpu_bound::run)];

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
