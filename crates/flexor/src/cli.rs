//! The command tree: what can be typed. What it means stands in one module per command.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, error::ErrorKind};
use clap_complete::Shell;

use crate::{
    completions, crd,
    exit::{self, Exit},
    output::Format,
    validate, version,
};

/// Elastic, fault-tolerant deep-learning training in one binary.
#[derive(Debug, Parser)]
#[command(name = "flexor", version, max_term_width = 100, after_help = exit::HELP)]
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
    /// everything that is wrong or without effect, with its line. Nothing is sent anywhere and no cluster is needed.
    ///
    /// Documents of other kinds (Deployment, Role, PriorityClass, …) are listed as skipped. The exit code is 1 if a
    /// document is refused or an input cannot be read, and with --strict also if there is a warning. The summary goes
    /// to standard error.
    #[command(
        after_help = "Examples:\n  flexor validate job.yaml\n  flexor validate --strict manifests/\n  kustomize build . | flexor validate -\n  flexor validate -o json job.yaml | jq '.summary'"
    )]
    Validate(ValidateArgs),
    /// Print the custom resource definitions that a cluster needs
    ///
    /// With both kinds called elasticjobs installed, `kubectl get elasticjob` means DLRover's; write
    /// elasticjobs.elastic.pytorch.org for TorchElastic's, or use the short names (dej, dsp, tej, tj).
    #[command(after_help = "Examples:\n  flexor crd | kubectl apply -f -\n  flexor crd --dialect torchelastic")]
    Crd(CrdArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Example, for bash:\n  source <(flexor completions bash)")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the version
    Version {
        /// Output format
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
}

/// What `flexor validate` takes.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Files, folders (searched for .yaml, .yml and .json), or - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Treat warnings as failures
    #[arg(long)]
    pub strict: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// What `flexor crd` takes.
#[derive(Debug, Args)]
pub struct CrdArgs {
    /// Only the definitions of one dialect
    #[arg(long, value_parser = crd::dialects())]
    pub dialect: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: CrdFormat,
}

/// The format of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CrdFormat {
    /// Documents for kubectl
    Yaml,
    /// A List object for kubectl
    Json,
}

impl Cli {
    /// What was typed to start this process. Ends the process if that was wrong usage, or asked for help.
    pub fn of_this_process() -> Self {
        let cli = Self::parse();
        cli.command.check().unwrap_or_else(|error| error.exit());
        cli
    }
}

impl Command {
    /// What the types cannot express about the arguments.
    fn check(&self) -> Result<(), clap::Error> {
        let Command::Validate(args) = self else { return Ok(()) };
        if args.files.iter().filter(|file| validate::is_standard_input(file)).count() > 1 {
            return Err(wrong_usage("validate", "standard input (-) can be read only once"));
        }
        Ok(())
    }

    /// Does it.
    pub fn run(self) -> anyhow::Result<Exit> {
        match self {
            Command::Validate(args) => validate::run(&args),
            Command::Crd(args) => crd::run(&args),
            Command::Completions { shell } => completions::run(shell),
            Command::Version { output } => version::run(output),
        }
    }
}

/// The whole tree, for completions and the reference page.
pub fn command() -> clap::Command {
    Cli::command()
}

/// An error of clap's own making, with the usage of the command.
fn wrong_usage(name: &str, message: &str) -> clap::Error {
    let mut program = command();
    program.build();
    let mut command = program.find_subcommand(name).cloned().unwrap_or(program);
    command.error(ErrorKind::ArgumentConflict, message)
}
