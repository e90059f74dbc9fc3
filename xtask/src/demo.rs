//! `cargo xtask demo`: shows on this machine, with real programs, what Flexor does.
//!
//! A demo starts every process itself, injects the faults that happen in clusters, prints the outcome, and ends every
//! process. It proves nothing beyond the tests: it is for people who want to watch.

mod narrator;
mod progress;
mod torchrun;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Arguments of `cargo xtask demo`.
#[derive(Args)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    demo: Demo,
}

#[derive(Subcommand)]
enum Demo {
    /// Stock torchrun loses rank 0, gains a node, loses its master, and trains on
    ///
    /// Starts a `flexor master` and three nodes of unmodified PyTorch, each a `torchrun` behind a `flexor sidecar`, that
    /// train examples/torch-mnist/train.py on digits of its own. Then: the node of rank 0 is killed, another node comes,
    /// the master is killed with kill -9 and started again. After each the decisions of the master are shown with their
    /// reasons, and how long nobody trained. Everything runs on loopback and is ended at the end, and when you press
    /// Ctrl-C.
    #[command(after_help = "\
What it needs: Python 3.11 or newer with venv; no root, no Kubernetes. PyTorch 2.15 is installed
into the cache the first time, which takes 550 MB and about 1.5 minutes, and flexor is built, some
minutes more. After that the demo takes about one minute.

What it does by hand, on three machines:
  flexor master --job digits --nnodes 2:3 --state ./state
  flexor sidecar --upstream MASTER:50001 &
  eval \"$(flexor env torchrun --nnodes 2:3 --id digits)\"
  torchrun examples/torch-mnist/train.py

Exit code: 0 when the job survived everything, 1 when not; target/demo/torchrun then holds the
logs. docs/guide/torchrun.md tells the rest.")]
    Torchrun,
}

/// Shows a demo; fails when the shown behaviour does not happen.
pub(crate) fn run(args: DemoArgs) -> Result<ExitCode> {
    match args.demo {
        Demo::Torchrun => torchrun::run(),
    }
}
