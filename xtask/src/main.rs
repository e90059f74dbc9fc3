//! The project's chores, as `cargo xtask COMMAND`.
//!
//! One module per command. Nothing here is part of the product: what users need is a command of `flexor`.

mod bench;
mod cluster;
mod compile;
mod demo;
mod experiment;
mod fuzz;
mod generate;
mod image;
mod packages;
mod soak;
mod source;
mod test;
mod tidy;
mod tree;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The chores of the Flexor project
#[derive(Parser)]
#[command(
    name = "xtask",
    bin_name = "cargo xtask",
    after_help = "\
Before a commit:
  cargo fmt && cargo clippy --workspace --all-targets -- -D warnings
  cargo xtask gen                 write the generated files again
  cargo xtask test --tier unit    seconds; `cargo xtask test` is what CI runs

CONTRIBUTING.md tells the rest."
)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Build everything once and run the tests, tier by tier
    Test(test::TestArgs),
    /// Check the rules of the house: dependency direction, purity, links, …
    Tidy,
    /// Write the files that are generated from the code, or check them
    Gen(generate::GenArgs),
    /// A Kubernetes cluster to play with: fake nodes, or real ones with containers
    Cluster(cluster::ClusterArgs),
    /// Make the container image of Flexor: an archive, a layout, or straight into a registry
    Image(image::ImageArgs),
    /// Race against the programs Flexor replaces and write the result
    Bench(bench::BenchArgs),
    /// See what Flexor does, with real programs on this machine
    Demo(demo::DemoArgs),
    /// Repeat EDL's autoscaling experiment on a real control plane, and compare it with the model of `flexor sim`
    Experiment(experiment::ExperimentArgs),
    /// Inject faults into jobs on this machine, seed after seed, and check that each succeeds
    Soak(soak::SoakArgs),
    /// Feed a parser with random input
    Fuzz(fuzz::FuzzArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.chore {
        Chore::Test(args) => return test::run(args),
        Chore::Tidy => tidy::run()?,
        Chore::Gen(args) => generate::run(args)?,
        Chore::Cluster(args) => cluster::run(args)?,
        Chore::Image(args) => image::run(args)?,
        Chore::Bench(args) => bench::run(args)?,
        Chore::Demo(args) => return demo::run(args),
        Chore::Experiment(args) => experiment::run(&args)?,
        Chore::Soak(args) => return soak::run(&args),
        Chore::Fuzz(args) => fuzz::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
