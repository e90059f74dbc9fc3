//! `flexor paddlecloud` and `flexor paddlectl`: the command lines of PaddlePaddle Cloud, for a Kubernetes cluster.
//!
//! The flags are Go's, with one dash ([`go_flags`]). A submission is a `TrainingJob` ([`job`]) and a ConfigMap with the
//! files of the user's package ([`package`]); both are complete and checked before anything is sent.

mod get;
pub mod go_flags;
mod job;
mod kill;
mod logs;
mod package;
mod submit;

use clap::{Args, Subcommand};

pub use self::get::GetArgs;
pub use self::submit::SubmitArgs;
use crate::exit::{Exit, Misused};
use crate::kubernetes::ClusterArgs;

/// The commands of `paddlecloud`.
#[derive(Debug, Subcommand)]
pub enum PaddlecloudCommand {
    /// Submit a job: trainers, parameter servers and a master, from a folder with the program
    ///
    /// The files of the package folder travel in a ConfigMap, which may hold 1 MiB, and are read at /workspace, where
    /// trainers start. With -parallelism the job has a fixed size and waits until all of it fits. With -faulttolerant,
    /// -min_instance and -max_instance it starts with the minimum, and grows and shrinks with the room in the cluster.
    #[command(
        after_help = "Examples:\n  paddlecloud submit -jobname mnist1 -cpu 8 -memory 8Gi -parallelism 40 -pscpu 4 -pservers 8 -entry \"python ./train.py train\" ./recognize_digits\n  paddlecloud submit -jobname mnist2 -faulttolerant -min_instance 50 -max_instance 200 -pservers 2 -image registry.example/mnist:1 -entry \"python ./train.py train\" ./recognize_digits"
    )]
    Submit(Box<SubmitArgs>),
    /// List jobs, or the workers of a job
    Get(GetArgs),
    /// Print the logs of a job's trainers
    Logs(LogsArgs),
    /// Delete a job and its package
    Kill(KillArgs),
}

/// The commands of `paddlectl`.
#[derive(Debug, Subcommand)]
pub enum PaddlectlCommand {
    /// Submit a job, as `paddlecloud submit` does; without -pservers it has one
    Submit(SubmitArgs),
}

/// Arguments of `paddlecloud logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Job
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Number of lines from the end of each log
    #[arg(short, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(i64).range(0..))]
    pub n: i64,
    /// Only this pod
    #[arg(short, value_name = "POD")]
    pub w: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Arguments of `paddlecloud kill`.
#[derive(Debug, Args)]
pub struct KillArgs {
    /// Job
    #[arg(value_name = "JOB")]
    pub job: String,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The program whose command line is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    Paddlecloud,
    Paddlectl,
}

impl Client {
    /// Its name, as users type it.
    fn name(self) -> &'static str {
        match self {
            Self::Paddlecloud => "paddlecloud",
            Self::Paddlectl => "paddlectl",
        }
    }
}

pub fn run_paddlecloud(command: &PaddlecloudCommand) -> anyhow::Result<Exit> {
    match command {
        PaddlecloudCommand::Submit(args) => submit::run(Client::Paddlecloud, args),
        PaddlecloudCommand::Get(args) => get::run(args),
        PaddlecloudCommand::Logs(args) => logs::run(args),
        PaddlecloudCommand::Kill(args) => kill::run(args),
    }
}

pub fn run_paddlectl(command: &PaddlectlCommand) -> anyhow::Result<Exit> {
    match command {
        PaddlectlCommand::Submit(args) => submit::run(Client::Paddlectl, args),
    }
}

/// A wrong command line.
fn misused(message: impl Into<String>) -> anyhow::Error {
    Misused(anyhow::Error::msg(message.into())).into()
}
