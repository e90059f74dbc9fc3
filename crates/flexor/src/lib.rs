//! The binary: command tree, printing and wiring, nothing else.
//!
//! A library beside a three-line `main`, so that the command reference is generated from the same tree that runs.

pub mod cli;

mod completions;
mod crd;
mod env;
mod exit;
mod launch;
mod logging;
mod master;
mod output;
mod sidecar;
mod signals;
mod validate;
mod version;

use std::process::ExitCode;

use crate::{cli::Cli, exit::Exit};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == launch::SHIM) {
        return flexor_agent::workers::exec_shim(words);
    }
    match Cli::of_this_process().command.run() {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::note(&format!("error: {error:#}"));
            Exit::Infrastructure.into()
        }
    }
}
