//! The binary: command tree, printing and wiring, nothing else.
//!
//! A library beside a three-line `main`, so that the command reference is generated from the same tree that runs.

pub mod cli;

mod completions;
mod crd;
mod exit;
mod output;
mod validate;
mod version;

use std::process::ExitCode;

use clap::Parser;

use crate::{cli::Cli, exit::Exit};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command.run() {
        Ok(exit) => exit.into(),
        // The reader of our output is gone, as with `| head`; there is nobody left to tell.
        Err(error) if is_broken_pipe(&error) => Exit::Ok.into(),
        Err(error) => {
            anstream::eprintln!("error: {error:#}");
            Exit::Infrastructure.into()
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
