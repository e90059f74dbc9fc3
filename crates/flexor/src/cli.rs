//! The command tree: what can be typed. What it means stands in one module per command.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::{completions, crd, exit::Exit, output::Format, validate, version};

/// Elastic, fault-tolerant deep-learning training in one binary.
#[derive(Debug, Parser)]
#[command(
    name = "flexor",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 all well, 1 a job or an input failed, 2 wrong usage, 3 a file system, network or cluster failed, 130 interrupted."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Every command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say what a manifest means, or what is wrong with it
    ///
    /// Reads manifests of DLRover (ElasticJob, ScalePlan), TorchElastic (ElasticJob) and PaddlePaddle EDL
    /// (TrainingJob), and prints for each the dialect, the job it describes (roles, replicas, ranges, resources) and
    /// everything that is wrong or without effect, with its line. Nothing is sent anywhere and no cluster is needed;
    /// what is accepted here, the API server accepts too.
    ///
    /// Documents of other kinds (Deployment, Role, PriorityClass, …) are listed as skipped. Exits with 1 if any
    /// document is refused or a file cannot be read.
    #[command(
        after_help = "Examples:\n  flexor validate job.yaml\n  flexor validate examples/\n  kustomize build . | flexor validate -\n  flexor validate -o json job.yaml | jq '.files[].documents[].verdict'"
    )]
    Validate {
        /// Files, folders (searched for .yaml, .yml and .json), or - for standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Form of the output
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
    /// Print the custom resource definitions that a cluster needs
    ///
    /// With both kinds called elasticjobs installed, `kubectl get elasticjob` means DLRover's; write
    /// elasticjobs.elastic.pytorch.org for TorchElastic's, or use the short names (dej, dsp, tej, tj).
    #[command(after_help = "Examples:\n  flexor crd | kubectl apply -f -\n  flexor crd --dialect torchelastic")]
    Crd {
        /// Only the definitions of one dialect
        #[arg(long, value_enum)]
        dialect: Option<Dialect>,
        /// Form of the output
        #[arg(short, long, value_enum, default_value = "yaml")]
        output: CrdFormat,
    },
    /// Print a completion script for a shell
    #[command(after_help = "Example, for bash:\n  source <(flexor completions bash)")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the version
    Version {
        /// Form of the output
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
}

/// The dialects that have custom resources. ElasticDL is a command line and has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dialect {
    /// DLRover: ElasticJob, ScalePlan
    Dlrover,
    /// TorchElastic: ElasticJob
    Torchelastic,
    /// PaddlePaddle EDL: TrainingJob
    Edl,
}

/// The form of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CrdFormat {
    /// Documents for kubectl
    Yaml,
    /// A List object for kubectl
    Json,
}

impl Command {
    /// Does it.
    pub fn run(self) -> anyhow::Result<Exit> {
        match self {
            Command::Validate { files, output } => validate::run(&files, output),
            Command::Crd { dialect, output } => crd::run(dialect, output),
            Command::Completions { shell } => completions::run(shell),
            Command::Version { output } => version::run(output),
        }
    }
}

impl Dialect {
    /// Its name in the dialects crate.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Dlrover => flexor_dialects::dlrover::NAME,
            Dialect::Torchelastic => flexor_dialects::torchelastic::NAME,
            Dialect::Edl => flexor_dialects::edl::NAME,
        }
    }
}

/// The whole tree, for completions and the reference page.
pub fn command() -> clap::Command {
    Cli::command()
}
