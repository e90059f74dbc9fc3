//! `flexor local`: a laptop cluster in the background.
//!
//! `up` starts a process that runs the cluster ([`background`]), as `flexor run` does in the foreground. `down` ends it,
//! and `status` describes it. Jobs are managed by the verbs, such as `flexor apply` and `flexor delete`.

mod background;
mod down;
mod own_log;
mod status;
mod up;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use flexor_local::state_dir::StateDir;

use crate::cli::{ClusterArgs, Limits};
use crate::exit::Exit;
use crate::output::Format;
use crate::{run as foreground, verbs};

#[derive(Debug, Subcommand)]
pub enum LocalCommand {
    /// Start a cluster in the background, or resume the jobs of one that was killed
    ///
    /// Programs get this shell's environment and run in the current folder. The cluster stays up when no job is left, and
    /// lists finished jobs until they are deleted. If a cluster is up already, `up` applies the manifests to it.
    #[command(after_help = "Examples:\n  flexor local up\n  flexor local up examples/any-program/job.yaml")]
    Up(UpArgs),
    /// Stop the cluster; its pods end within their grace period, or at once with --now
    Down(DownArgs),
    /// Show whether a cluster is up, since when, and its jobs and pods; exit code 3 if none is up
    Status(StatusArgs),
    /// Run the cluster for `up`.
    #[command(hide = true)]
    Background(ClusterArgs),
}

/// Arguments of `flexor local up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Manifests: files, folders, or - for standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Arguments of `flexor local down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// Kill the pods without a grace period
    #[arg(long)]
    pub now: bool,
    #[command(flatten)]
    pub state_dir: verbs::StateDirArg,
}

/// Arguments of `flexor local status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub state_dir: verbs::StateDirArg,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

pub fn run(command: &LocalCommand) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        match command {
            LocalCommand::Up(args) => up::run(args).await,
            LocalCommand::Down(args) => down::run(args).await,
            LocalCommand::Status(args) => status::run(args).await,
            LocalCommand::Background(args) => background::run(args).await,
        }
    });
    done.or_else(verbs::report_error)
}

impl ClusterArgs {
    /// A cluster in this state directory, with defaults for everything else.
    fn in_state_dir(state_dir: Option<PathBuf>) -> Self {
        Self { state_dir, ephemeral: false, cpus: None, accept_journal_loss: false, limits: Limits::Auto }
    }

    /// The command line options that give the same arguments.
    fn to_options(&self) -> Vec<OsString> {
        let Self { state_dir, ephemeral, cpus, accept_journal_loss, limits } = self;
        let mut options: Vec<OsString> = Vec::new();
        options.extend(state_dir.iter().flat_map(|state_dir| ["--state-dir".into(), state_dir.into()]));
        options.extend(ephemeral.then(|| "--ephemeral".into()));
        options.extend(accept_journal_loss.then(|| "--accept-journal-loss".into()));
        options.extend(cpus.iter().flat_map(|cpus| ["--cpus".into(), cpus.to_string().into()]));
        if *limits == Limits::Watch {
            options.extend(["--limits".into(), "watch".into()]);
        }
        options
    }
}

/// The state directory that was given, or the default one.
fn state_dir(given: Option<&std::path::Path>) -> anyhow::Result<StateDir> {
    Ok(StateDir::at(foreground::state_dir(given)?))
}
