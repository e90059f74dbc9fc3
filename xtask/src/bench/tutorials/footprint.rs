//! What the product itself takes: the memory of the operator, and the size of its image.

use std::fs;

use anyhow::{Context, Result};

use super::site::Site;
use crate::bench::process_cost::resident_mib;
use crate::bench::row::Row;

const MEMORY_MARK: f64 = 30.0;
const IMAGE_MARK: f64 = 20.0;
/// The virtual environment of DLRover's master, as its authors' package makes it.
const DLROVER_MB: f64 = 225.0;

pub(super) fn run(site: &Site) -> Result<Vec<Row>> {
    let operator = operator_pid().context("no operator runs")?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let size = site.flexor.write_layout(folder.path(), &"flexor:latest".parse()?)?.size;
    let megabytes = size as f64 / 1e6;
    Ok(vec![
        Row::within("operator without jobs: memory", "MiB", &[resident_mib(operator)?], MEMORY_MARK)?,
        Row::within("image, compressed", "MB", &[megabytes], IMAGE_MARK)?,
        Row::published(
            "image, beside what DLRover's master needs",
            "MB",
            &[megabytes],
            "DLRover's packages",
            DLROVER_MB,
        )?,
    ])
}

/// The operator's process, which is in a container of a node and so in a namespace below this one.
fn operator_pid() -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?;
    processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"flexor")) && words.next() == Some(b"operator")
    })
}
