//! Jobs of the tutorials on real nodes: the time until they run, until a lost worker trains again, and what moving a
//! parameter server costs the training.
//!
//! The peer of a start is a bare pod with the same image and program, made without a controller: what a container
//! costs on this machine. The figures of the tutorials themselves are published, and stand beside ours.

mod all_reduce;
mod footprint;
mod migration;
mod site;

use anyhow::{Context, Result, bail};
use tokio::runtime::Builder;

use self::site::Site;
use super::row::Row;

pub(super) const REPEATS: u32 = 3;

/// A part of the bench.
#[derive(Clone, Copy)]
enum Part {
    AllReduce,
    Migration,
    Footprint,
}

const PARTS: [(&str, Part); 3] =
    [("all-reduce", Part::AllReduce), ("migration", Part::Migration), ("footprint", Part::Footprint)];

pub(super) fn run(repeats: u32, filter: Option<&str>) -> Result<Vec<Row>> {
    let parts: Vec<_> = PARTS.iter().filter(|(name, _)| filter.is_none_or(|part| name.contains(part))).collect();
    if parts.is_empty() {
        bail!("no part has that in its name; there are: {}", PARTS.map(|(name, _)| name).join(", "));
    }
    let runtime = Builder::new_multi_thread().enable_all().build().context("cannot start tokio")?;
    runtime.block_on(async {
        let site = Site::start().await?;
        let mut rows = Vec::new();
        for (name, part) in parts {
            let measured = match part {
                Part::AllReduce => all_reduce::run(&site, repeats).await,
                Part::Migration => migration::run(&site, repeats).await,
                Part::Footprint => footprint::run(&site),
            };
            rows.extend(measured.with_context(|| format!("the part {name}; the operator's log: {}", site.log()))?);
        }
        Ok(rows)
    })
}
