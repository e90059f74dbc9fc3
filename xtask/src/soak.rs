//! `cargo xtask soak`: runs jobs under `flexor run --chaos`, one seed after the other; each must succeed.
//!
//! A failed job keeps its folder, with its output, the logs of every pod, and the list of faults, so that it can be
//! replayed. [`program`] defines the programs and what a job of each must have
//! reached at its end.

mod logs;
mod program;
mod storm;
mod trial;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use flexor_model::env::BIN;
use flexor_testbed::Torch;

use self::program::Program;
use self::trial::Trial;
use crate::compile;
use crate::tree::project_root;

/// Where the folders of failed jobs are kept, below the root of the repository.
const KEPT: &str = "target/soak";

/// Arguments of `cargo xtask soak`.
#[derive(Args)]
#[command(after_help = "\
What it needs: curl; Python 3.11 or newer for the jobs with PyTorch, which are left out where it is
missing. A seed takes about half a minute. flexor is built first, unless FLEXOR_BIN names one.

Exit code: 0 when every job has succeeded and has counted every record of its data exactly once;
else 1, and target/soak/NAME-SEED has the logs of each failed job. The last lines are the commands
that replay them. A job that was left out does not count as failed.")]
pub(crate) struct SoakArgs {
    /// How many seeds, with those whose job is left out
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first: u64,
    /// Stop after the job in which this many faults were injected in all
    #[arg(long, value_name = "N")]
    faults: Option<usize>,
    /// Only this program: any-program (a shell), dlrover, torchelastic, quickstart, quickstart-copies (its parameters
    /// have a backup) or server-storm; without it the seed selects the program
    #[arg(long, value_name = "NAME")]
    only: Option<Program>,
}

/// Runs every seed, and fails when a job failed or could not be run.
pub(crate) fn run(args: &SoakArgs) -> Result<ExitCode> {
    let root = project_root()?;
    let torch = if args.only.is_none_or(Program::needs_torch) { torch() } else { None };
    let flexor = match env::var_os(BIN.name) {
        Some(built) => PathBuf::from(built),
        None => compile::flexor(&root, "dev")?,
    };
    let mut failed = Vec::new();
    let (mut count, mut faults) = (0, 0);
    let began = Instant::now();
    for seed in args.first..args.first.saturating_add(args.seeds) {
        let program = args.only.unwrap_or_else(|| Program::of_seed(seed));
        if program.needs_torch() && torch.is_none() {
            continue;
        }
        count += 1;
        let trial = Trial { seed, program, flexor: &flexor, root: &root, torch: torch.as_ref() };
        let outcome = trial.run(&root.join(KEPT))?;
        println!("{outcome}");
        faults += outcome.faults;
        failed.extend(outcome.kept);
        if args.faults.is_some_and(|enough| faults >= enough) {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{count} seeds in {seconds:.0} s, {faults} faults, {} failed", failed.len());
    if let Some(wanted) = args.faults.filter(|wanted| faults < *wanted) {
        println!("fewer than {wanted} faults were injected; play more seeds");
        return Ok(ExitCode::FAILURE);
    }
    for folder in &failed {
        println!("replay: {}", trial::again(folder, &flexor));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// PyTorch; where it is missing, the reason is printed and the jobs that need it are left out.
fn torch() -> Option<Torch> {
    Torch::ensure().inspect_err(|error| println!("skipped: the jobs with PyTorch: {error}")).ok()
}
