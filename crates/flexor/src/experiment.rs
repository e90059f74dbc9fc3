//! `flexor experiment`: the programs of EDL's autoscaling experiment, for a cluster.
//!
//! [`collector`] keeps the account of the experiment, [`observation`] reads one moment of it from the cluster's objects,
//! and [`watch`] asks the cluster for them.

mod collector;
mod observation;
mod watch;

use clap::{Args, Subcommand, ValueEnum};

use crate::exit::Exit;
use crate::kubernetes::ClusterArgs;

#[derive(Debug, Subcommand)]
pub enum ExperimentCommand {
    /// Print the state of jobs and of the cluster every five seconds, and averages at the end
    ///
    /// A line for each job: the seconds since the start, the job, its status, the CPUs and the graphics cards of the
    /// cluster that pods request, and the job's trainers. The status is WAITING until the job is submitted, PENDING until
    /// all its trainers run, RUNNING, and FINISH. The command ends when all jobs have finished.
    #[command(
        after_help = "Examples:\n  flexor experiment watch case1 mnist1,mnist2\n  flexor experiment watch case2 mnist-hybrid"
    )]
    Watch(WatchArgs),
}

/// Arguments of `flexor experiment watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Test case
    #[arg(value_enum)]
    pub case: Case,
    /// Jobs, separated by commas
    #[arg(value_name = "JOBS", required = true, value_delimiter = ',')]
    pub jobs: Vec<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The test cases of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// Training jobs alone
    Case1,
    /// Training jobs beside an online service: one more column counts the pods with the label app=nginx that run
    Case2,
}

pub fn run(command: &ExperimentCommand) -> anyhow::Result<Exit> {
    match command {
        ExperimentCommand::Watch(args) => watch::run(args),
    }
}
