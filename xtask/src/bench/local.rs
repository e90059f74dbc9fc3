//! The laptop cluster alone: its overhead on programs, its time to replace a pod, and the cost of a thousand pods.
//!
//! The programs record their own start ([`Programs`]), so no measurement depends on the cluster's view. There is no
//! peer: nothing else runs these manifests without a container runtime.

mod crowd;
mod empty;
mod preemption;
mod programs;
mod replacement;
mod run;

use anyhow::Result;

use self::programs::Programs;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

/// A part of the bench: its name for the filter, and its function.
type Part = (&'static str, fn(&std::path::Path, u32) -> Result<Vec<Row>>);

const PARTS: [Part; 4] =
    [("empty", empty::run), ("replacing", replacement::run), ("crowd", crowd::run), ("competing", preemption::run)];

pub(super) fn run(repeats: u32, filter: Option<&str>) -> Result<Vec<Row>> {
    let flexor = compile::flexor(&project_root()?, "release")?;
    let mut rows = Vec::new();
    for (name, run) in PARTS {
        if filter.is_none_or(|filter| name.contains(filter)) {
            rows.extend(run(&flexor, repeats)?);
        }
    }
    Ok(rows)
}
