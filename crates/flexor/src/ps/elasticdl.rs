//! `flexor ps --elasticdl`: replaces one parameter server of ElasticDL, for its workers.
//!
//! The options are those of ElasticDL's own server, with dashes or with underscores. No Flexor master takes part.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use flexor_ps::elasticdl::{
    Checkpoints, ElasticdlServer, LoadError, LoadedCheckpoint, Mode, ModelShare, Options, Parameters,
};
use flexor_ps::spec::Optimizer;
use tokio::net::TcpListener;

use crate::exit::{Exit, Misused, Refused};
use crate::signals::Termination;

/// Arguments of a server for ElasticDL's workers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Replacing ElasticDL's server")]
pub struct ElasticdlArgs {
    /// Serve ElasticDL's workers (the service proto.Pserver), without a Flexor master
    ///
    /// The workers assign parameters to servers, so the set of servers cannot change during training. To continue with
    /// another number of servers, start them with --checkpoint-dir-for-init.
    #[arg(long)]
    pub elasticdl: bool,
    /// Number of this server in the job, from 0
    #[arg(long, alias = "ps_id", value_name = "N", default_value_t = 0, requires = "elasticdl")]
    pub ps_id: u32,
    /// Number of servers of the job
    #[arg(long, alias = "num_ps_pods", value_name = "N", default_value = "1", requires = "elasticdl")]
    pub num_ps_pods: NonZeroU32,
    /// Optimizer: SGD, Adagrad or Adam
    #[arg(long, alias = "opt_type", value_name = "TYPE", requires_all = ["elasticdl", "opt_args"])]
    pub opt_type: Option<String>,
    /// Arguments of the optimizer, such as 'learning_rate=0.1;momentum=0.0;nesterov=False'
    #[arg(long, alias = "opt_args", value_name = "ARGS", requires_all = ["elasticdl", "opt_type"])]
    pub opt_args: Option<String>,
    /// Train asynchronously: apply every push when it arrives, instead of several per step
    #[arg(
        long, alias = "use_async", value_name = "BOOL", requires = "elasticdl", require_equals = true,
        num_args = 0..=1, default_value = "false", default_missing_value = "true"
    )]
    pub use_async: bool,
    /// Number of pushes per synchronous step; dense gradients are averaged, gradients of rows are added
    #[arg(long, alias = "grads_to_wait", value_name = "N", default_value = "1", requires = "elasticdl")]
    pub grads_to_wait: NonZeroU32,
    /// Largest age of gradients that a step accepts; older ones are rejected
    #[arg(long, alias = "sync_version_tolerance", value_name = "STEPS", default_value_t = 0, requires = "elasticdl")]
    pub sync_version_tolerance: u32,
    /// With --use-async: divide the learning rate by the number of updates since the worker's pull
    #[arg(
        long, alias = "lr_staleness_modulation", value_name = "BOOL", requires = "elasticdl", require_equals = true,
        num_args = 0..=1, default_value = "false", default_missing_value = "true"
    )]
    pub lr_staleness_modulation: bool,
    /// Seed of the initial values of rows
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "elasticdl")]
    pub seed: u64,
    /// Folder for checkpoints; all servers of the job may share it
    #[arg(long, alias = "checkpoint_dir", value_name = "DIR", requires_all = ["elasticdl", "checkpoint_steps"])]
    pub checkpoint_dir: Option<PathBuf>,
    /// Number of versions between two checkpoints; 0 for no checkpoints
    #[arg(long, alias = "checkpoint_steps", value_name = "N", default_value_t = 0, requires = "elasticdl")]
    pub checkpoint_steps: u32,
    /// Number of checkpoints to keep; 0 keeps all
    #[arg(long, alias = "keep_checkpoint_max", value_name = "N", default_value_t = 3, requires = "elasticdl")]
    pub keep_checkpoint_max: usize,
    /// Checkpoint to restore from: of such servers, of native ones, or of ElasticDL itself
    ///
    /// Any number of servers can restore a checkpoint that any other number has written. In a folder with several
    /// checkpoints the latest complete one is used.
    #[arg(long, alias = "checkpoint_dir_for_init", value_name = "DIR", requires = "elasticdl")]
    pub checkpoint_dir_for_init: Option<PathBuf>,
}

impl ElasticdlArgs {
    fn optimizer(&self) -> anyhow::Result<Option<Optimizer>> {
        let (Some(opt_type), Some(opt_args)) = (&self.opt_type, &self.opt_args) else { return Ok(None) };
        let optimizer = Optimizer::from_elasticdl(opt_type, opt_args);
        Ok(Some(optimizer.map_err(|error| misused(format!("--opt-type {opt_type} --opt-args '{opt_args}': {error}")))?))
    }

    fn mode(&self) -> Mode {
        match self.use_async {
            true => Mode::Async { modulates_rate: self.lr_staleness_modulation },
            false => Mode::Sync { grads_to_wait: self.grads_to_wait, tolerance: self.sync_version_tolerance },
        }
    }

    /// Creates the server, new or restored from a checkpoint.
    fn server(&self) -> anyhow::Result<ElasticdlServer> {
        let (server, servers) = (self.ps_id, self.num_ps_pods);
        if server >= servers.get() {
            return Err(misused(format!("--ps-id {server}: the job has {servers} servers, numbered from 0")));
        }
        if self.lr_staleness_modulation && !self.use_async {
            tracing::warn!("--lr-staleness-modulation does nothing without --use-async");
        }
        let Some(optimizer) = self.optimizer()? else {
            let why = "--elasticdl needs --opt-type and --opt-args; the worker does not say how the model is trained";
            return Err(misused(why.to_owned()));
        };
        let options = Options { optimizer, mode: self.mode(), seed: self.seed };
        let parameters = match &self.checkpoint_dir_for_init {
            None => Parameters::new(options).map_err(|error| misused(format!("--opt-args: {error}")))?,
            Some(folder) => {
                let refused = |error: LoadError| Refused(anyhow::Error::new(error).context(init_from(folder)));
                let loaded = LoadedCheckpoint::read(folder, Some(optimizer), self.seed).map_err(refused)?;
                let parameters =
                    loaded.into_parameters(options, ModelShare::Server { server, servers }).map_err(refused)?;
                tracing::info!(version = parameters.version(), rows = parameters.load().rows, "restored a checkpoint");
                parameters
            }
        };
        let every = NonZeroU32::new(self.checkpoint_steps);
        let folder = self.checkpoint_dir.as_ref().zip(every);
        if let Some((folder, _)) = folder {
            check_writable(folder)?;
        }
        let checkpoints =
            folder.map(|(folder, every)| Checkpoints::new(folder, server, servers, every, self.keep_checkpoint_max));
        Ok(ElasticdlServer::new(parameters, checkpoints))
    }
}

fn misused(message: String) -> anyhow::Error {
    Misused(anyhow!(message)).into()
}

/// Creates the folder for checkpoints and a file in it: a wrong folder fails at the start, not at the first checkpoint.
fn check_writable(folder: &Path) -> anyhow::Result<()> {
    let private = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let tried = private.and_then(|()| tempfile::tempfile_in(folder));
    tried.map(drop).map_err(|error| {
        let shown = folder.display();
        Refused(anyhow!("--checkpoint-dir {shown} cannot be written: {error}; name a writable folder")).into()
    })
}

fn init_from(folder: &Path) -> String {
    format!("--checkpoint-dir-for-init {}", folder.display())
}

/// Serves until a signal ends the process.
pub(super) async fn run(
    args: &ElasticdlArgs,
    listen: impl AsyncFnOnce() -> anyhow::Result<TcpListener>,
    termination: &mut Termination,
) -> anyhow::Result<Exit> {
    let server = args.server()?;
    let listener = listen().await?;
    flexor_listen::prepare(&listener)?;
    let listening: SocketAddr = listener.local_addr()?;
    tracing::info!(%listening, server = args.ps_id, servers = args.num_ps_pods, mode = ?args.mode(), "serves ElasticDL's workers");
    if !listening.ip().is_loopback() {
        tracing::warn!(%listening, "ElasticDL's workers have no token: let only the job's pods reach this address");
    }
    let http = super::http_server();
    let exit = tokio::select! {
        exit = termination.wait() => exit,
        () = http.serve(&listener, server.routes().into_axum_router()) => Exit::Success,
    };
    tokio::task::spawn_blocking(move || server.finish_writing())
        .await
        .context("cannot wait for the last checkpoint")?;
    Ok(exit)
}
