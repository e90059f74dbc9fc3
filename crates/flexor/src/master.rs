//! `flexor master`: runs the master of one job.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use flexor_client::token_file;
use flexor_engine::ps_membership;
use flexor_master::faults::Faults;
use flexor_master::journal::JournalError;
use flexor_master::{Checkpoints, Config, LossPolicy, Master, MasterError, Ports};
use flexor_model::{Generation, JobUid};
use flexor_store::server::FAIR_EVENT_INTERVAL;
use serde::Serialize;
use tokio::net::TcpListener;

use crate::cli::MasterArgs;
use crate::exit::Exit;
use crate::inherited::InheritedSockets;
use crate::output::{self, Format};
use crate::{logging, signals};

/// The line that is printed when the master serves.
#[derive(Debug, Serialize)]
struct ReadyLine<'a> {
    job: &'a str,
    generation: u64,
    grpc: SocketAddr,
    store: SocketAddr,
    http: SocketAddr,
}

pub fn run(args: &MasterArgs) -> anyhow::Result<Exit> {
    logging::start();
    let config = match config(args) {
        Ok(config) => config,
        Err(error) => {
            output::note(&format!("error: {}", output::with_causes(&error)));
            return Ok(Exit::Failure);
        }
    };
    signals::allow_many_files();
    // Every line of the log names the job, whichever task writes it.
    let span = tracing::info_span!("job", name = %config.job);
    let _span = span.clone().entered();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .event_interval(FAIR_EVENT_INTERVAL)
        .on_thread_start(move || std::mem::forget(span.clone().entered()))
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(args, config));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

fn config(args: &MasterArgs) -> anyhow::Result<Config> {
    let token = args.token_file.as_deref().map(token_file::read).transpose()?;
    if token.is_none() && !args.grpc.ip().is_loopback() {
        let address = args.grpc;
        bail!("--grpc {address} is reachable from other machines, so the job needs a token: give --token-file");
    }
    if !args.store.ip().is_loopback() {
        tracing::warn!(store = %args.store, "TCPStore has no authentication: let only the job's own pods reach this port");
    }
    let mut settings = args.nnodes.settings().context("--nnodes")?.with_unit(args.node_unit).context("--node-unit")?;
    settings.max_restarts = args.max_restarts;
    settings.last_call = Duration::from_secs(args.last_call);
    let uid = JobUid::from(args.uid.as_deref().unwrap_or(args.job.as_str()));
    let servers = ps_membership::Settings {
        replication_factor: args.ps_replication_factor,
        ..ps_membership::Settings::default()
    };
    let checkpoints = args.checkpoint_folder.clone().map(|folder| Checkpoints {
        folder,
        every: Duration::from_secs(u64::from(args.checkpoint_every)),
        keep: args.checkpoint_keep,
    });
    let (job, state, hosts) = (args.job.clone(), args.state.clone(), args.allowed_host.clone());
    let journal_loss = if args.accept_journal_loss { LossPolicy::Accept } else { LossPolicy::Refuse };
    let plain_store = args.plain_store;
    Ok(Config { job, uid, settings, servers, checkpoints, state, journal_loss, token, hosts, plain_store })
}

/// Hint for a port that is in use.
const PORT_IN_USE: &str = "is another master running here? Port 0 takes a free one";

async fn serve(args: &MasterArgs, config: Config) -> anyhow::Result<Exit> {
    let mut termination = signals::terminated()?;
    let mut end = Exit::Success;
    let mut sockets = InheritedSockets::of_this_process();
    let ports = Ports {
        grpc: sockets.listen(args.grpc, "--grpc", PORT_IN_USE).await?,
        store: sockets.listen(args.store, "--store", PORT_IN_USE).await?,
        http: sockets.listen(args.http, "--http", PORT_IN_USE).await?,
    };
    let [grpc, store, http] = [&ports.grpc, &ports.store, &ports.http].map(TcpListener::local_addr);
    let (grpc, store, http) = (grpc?, store?, http?);
    let faults = fault_file().map_or_else(Faults::off, Faults::from_file);
    let job = config.job.to_string();
    if config.state.is_none() {
        tracing::warn!("no --state: a restart of this master restarts all workers");
    }
    let refusal = RefusalNote::in_folder(config.state.as_deref());
    let opened = tokio::select! {
        opened = Master::open_when_there_is_room(config, ports, &faults) => opened,
        exit = termination.wait() => return Ok(exit),
    };
    let master = match opened {
        Ok(master) => master,
        Err(error) => {
            output::note(&format!("error: {error}"));
            refusal.leave_if_loss(&error);
            return Ok(Exit::Infrastructure);
        }
    };
    refusal.remove();
    if store.ip().is_loopback() {
        tracing::info!("only this machine can reach these ports; for other nodes see --store, --grpc and --token-file");
    }
    let generation = master.generation();
    print_ready(args.output, &ReadyLine { job: &job, generation: generation.0, grpc, store, http })?;
    match master.serve(async { end = termination.wait().await }).await {
        Ok(()) => Ok(end),
        Err(MasterError::Journal(JournalError::Superseded { by })) => {
            superseded(generation, by);
            Ok(Exit::Infrastructure)
        }
        Err(error) => {
            output::note(&format!("error: {error}"));
            Ok(Exit::Infrastructure)
        }
    }
}

/// A note in the state folder that its journal has lost facts and that no master has started since. A laptop cluster keeps
/// such a folder when it removes the job.
struct RefusalNote(Option<PathBuf>);

impl RefusalNote {
    fn in_folder(state: Option<&Path>) -> Self {
        Self(state.map(|folder| folder.join(flexor_local::JOURNAL_REFUSED)))
    }

    fn leave_if_loss(&self, error: &MasterError) {
        if let (Some(note), MasterError::Journal(journal)) = (&self.0, error)
            && journal.is_loss()
            && let Err(error) = fs::write(note, format!("{journal}\n"))
        {
            tracing::warn!(%error, "cannot write {}", note.display());
        }
    }

    fn remove(&self) {
        // Usually there is none.
        let _ = self.0.as_ref().map(fs::remove_file);
    }
}

fn superseded(own: Generation, by: Generation) {
    output::note(&format!(
        "Superseded: another master of this job has started (generation {by}); this one ({own}) ends"
    ));
}

fn print_ready(format: Format, ready: &ReadyLine<'_>) -> anyhow::Result<()> {
    match format {
        Format::Json => output::text(&format!("{}\n", serde_json::to_string(ready)?)),
        Format::Text => {
            let ReadyLine { job, generation, grpc, store, http } = ready;
            output::text(&format!(
                "master of job {job}, generation {generation}: grpc {grpc}, store {store}, http {http}\n"
            ))
        }
    }
}

fn fault_file() -> Option<PathBuf> {
    std::env::var_os(flexor_model::env::FAULTS.name).filter(|file| !file.is_empty()).map(PathBuf::from)
}
