//! Runs a race again in an optimised build of this program.
//!
//! `cargo xtask` is built for quick compiling. A load generator built that way would be the bottleneck of every race,
//! for ours and for the peer. A release build therefore runs the races that generate load. The measured master is a
//! separate process in either case.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::compile;
use crate::tree::project_root;

/// Whether this program is the optimised build.
pub(super) const IS_OPTIMISED: bool = !cfg!(debug_assertions);

/// Builds this program with optimisation and runs the race with it, with the same arguments.
pub(super) fn play(race: &str) -> Result<()> {
    let root = project_root()?;
    let built = compile::run(&root, "load generator", &["build", "--package=xtask", "--profile=release"])?;
    let program = built.into_iter().find(|artifact| artifact.target.name == "xtask").and_then(|found| found.executable);
    let program = program.context("cargo built no program called xtask")?;
    let status = Command::new(&program)
        .args(std::env::args_os().skip(1))
        .current_dir(&root)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(status.success(), "the race {race} ended with {status}; its messages are above");
    Ok(())
}
