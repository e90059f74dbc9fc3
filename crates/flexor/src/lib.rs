//! The `flexor` command: command tree, output and wiring. All behaviour is in the other crates.
//!
//! It is a library beside a three-line `main`, so that the command reference is generated from the tree that runs, and
//! that the chores print a run of an experiment as `flexor sim` does.

mod checkpoint;
pub mod cli;
mod predict;
pub mod sim;

mod completions;
mod crd;
mod data;
mod env;
mod exit;
mod experiment;
mod inherited;
mod kubernetes;
mod launch;
mod local;
mod logging;
mod master;
mod operator;
mod output;
mod paddle;
mod picture;
mod pod;
mod ps;
mod run;
mod sidecar;
mod signals;
mod validate;
mod verbs;
mod version;
mod worker;

use std::process::ExitCode;

use crate::{cli::Cli, exit::Exit};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == launch::SHIM => return flexor_agent::workers::exec_shim(words),
        Some(word) if word == launch::KEEPER => return flexor_agent::processes::run_keeper(words),
        Some(word) if word == pod::WORD => return pod::run(words),
        Some(_) | None => {}
    }
    if completions::answer() {
        return ExitCode::SUCCESS;
    }
    match Cli::of_this_process().command.run() {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::note(&format!("error: {}", output::with_causes(&error)));
            Exit::of(&error).into()
        }
    }
}
