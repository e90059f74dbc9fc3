//! `flexor local`: a laptop cluster that stays, for jobs that come and go.
//!
//! `up` starts a process in the background that runs the cluster ([`background`]), as `flexor run` does in the
//! foreground; `down` ends it; `status` tells of it. Jobs are the verbs' business: they come by `flexor apply` and go by
//! `flexor delete`.

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

/// What can be done with a cluster in the background.
#[derive(Debug, Subcommand)]
pub enum LocalCommand {
    /// Start a cluster in the background, or go on with the jobs of one that was killed
    ///
    /// Its programs see this shell's environment and run in this folder. It stays when no job is left, and finished jobs
    /// are listed until they are deleted. Where one is up already it is given the manifests.
    #[command(after_help = "Examples:\n  flexor local up\n  flexor local up examples/any-program/job.yaml")]
    Up(UpArgs),
    /// End the cluster and all its pods: in their own time, unless --now is given
    Down(DownArgs),
    /// Tell whether a cluster is up, since when, and what is in it; exit code 3 where none is
    Status(StatusArgs),
    /// Run the cluster that `up` has asked for.
    #[command(hide = true)]
    Background(ClusterArgs),
}

/// What `flexor local up` takes.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Manifests: files, folders, or - for standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// What `flexor local down` takes.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// Kill the pods instead of letting them end
    #[arg(long)]
    pub now: bool,
    #[command(flatten)]
    pub state_dir: verbs::StateDirArg,
}

/// What `flexor local status` takes.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub state_dir: verbs::StateDirArg,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// Does it.
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
    done.or_else(verbs::told)
}

impl ClusterArgs {
    /// A cluster in this folder, with nothing else said about it.
    fn in_folder(state_dir: Option<PathBuf>) -> Self {
        Self { state_dir, ephemeral: false, cpus: None, limits: Limits::Auto }
    }

    /// The same, to be typed again.
    fn words(&self) -> Vec<OsString> {
        let Self { state_dir, ephemeral, cpus, limits } = self;
        let mut words: Vec<OsString> = Vec::new();
        words.extend(state_dir.iter().flat_map(|state_dir| ["--state-dir".into(), state_dir.into()]));
        words.extend(ephemeral.then(|| "--ephemeral".into()));
        words.extend(cpus.iter().flat_map(|cpus| ["--cpus".into(), cpus.to_string().into()]));
        if *limits == Limits::Watch {
            words.extend(["--limits".into(), "watch".into()]);
        }
        words
    }
}

/// The folder of the cluster that is meant.
fn state_dir(given: Option<&std::path::Path>) -> anyhow::Result<StateDir> {
    Ok(StateDir::at(foreground::state_dir(given)?))
}
