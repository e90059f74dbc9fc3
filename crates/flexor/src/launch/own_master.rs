//! A master inside the launcher's process. It has no journal, because it ends with the launch.
//!
//! With `--standalone` it serves this launch alone, on free ports of this machine. With `--rdzv-conf is_host=true`, or on
//! rank 0 of a static rendezvous, it serves all nodes at the address where torchrun's first node would serve. On rank 0 of
//! a static rendezvous that address also serves the workers' store.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use flexor_agent::launch::FixedStore;
use flexor_client::token_file;
use flexor_dialects::launch_options::{Address, LaunchOptions, Nodes};
use flexor_engine::rendezvous::Settings;
use flexor_master::faults::Faults;
use flexor_master::job::Job;
use flexor_master::{Config, Master, MasterError, Ports};
use flexor_model::{JobUid, env};
use tempfile::NamedTempFile;
use tokio::net::{TcpListener, lookup_host};
use tokio::task::JoinHandle;

use super::shared_port::{self, Destinations};

/// Name of the job if the command line gives none.
pub const JOB: &str = "standalone";

/// How long to wait for other nodes to leave after the run is over.
const DEPARTURE_TIMEOUT: Duration = Duration::from_secs(10);

/// A running master. Dropping it ends the master.
pub struct OwnMaster {
    address: SocketAddr,
    job: Job,
    task: JoinHandle<Result<(), MasterError>>,
    /// Serves the address that the master shares with the workers' store.
    shared_port: Option<JoinHandle<()>>,
    /// Holds a generated token that only this launch and its workers know.
    token_file: Option<NamedTempFile>,
}

impl OwnMaster {
    /// Starts a master for this launch alone. Generates a token if the user gave none, because other users of this machine
    /// can connect to it.
    pub async fn start(options: &LaunchOptions, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let generated = if token_file.is_none() { Some(make_token().context("cannot make a token")?) } else { None };
        let token = token_file.or(generated.as_ref().map(NamedTempFile::path));
        let grpc = (bind(here).await?, None);
        let mut own = Self::serve(options, JOB, Nodes { min: 1, max: 1 }, grpc, token).await?;
        own.token_file = generated;
        Ok(own)
    }

    /// Starts a master for all nodes of the job, at an address of this machine. All nodes send the user's token, if there
    /// is one.
    pub async fn start_for_all(
        options: &LaunchOptions,
        id: &str,
        at: &Address,
        nodes: Nodes,
        token_file: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let grpc = (bind(address_of_all(at, token_file).await?).await?, Some(at.host.as_str()));
        Self::serve(options, id, nodes, grpc, token_file).await
    }

    /// As [`OwnMaster::start_for_all`], at an address that also serves the workers' store.
    pub async fn start_static(
        options: &LaunchOptions,
        id: &str,
        at: &Address,
        nodes: Nodes,
        token_file: Option<&Path>,
    ) -> anyhow::Result<(Self, FixedStore)> {
        let shared = bind(address_of_all(at, token_file).await?).await?;
        let address = shared.local_addr()?;
        let mut own = Self::serve(options, id, nodes, (free().await?, Some(&at.host)), token_file).await?;
        let fixed = FixedStore::new(at.host.clone(), address.port());
        let store_for_others = token_file.is_none();
        let destinations = Destinations { master: own.address, store: fixed.current(), store_for_others };
        own.shared_port = Some(tokio::spawn(shared_port::serve(shared, destinations)));
        own.address = address;
        Ok((own, fixed))
    }

    async fn serve(
        options: &LaunchOptions,
        id: &str,
        nodes: Nodes,
        (grpc, host): (TcpListener, Option<&str>),
        token_file: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let address = grpc.local_addr()?;
        let ports = Ports { grpc, store: free().await?, http: free().await? };
        let mut settings = Settings::new(nodes.min, nodes.max)?.with_unit(options.node_unit)?;
        settings.max_restarts = options.max_restarts;
        if let Some(last_call) = options.rendezvous_conf.last_call {
            settings.last_call = last_call;
        }
        // torchrun accepts any text as the ID of a run.
        let id = named(id).unwrap_or(JOB);
        let config = Config {
            job: id.parse().or_else(|_| JOB.parse()).context("the name of the job")?,
            uid: JobUid::from(id),
            settings,
            servers: flexor_engine::ps_membership::Settings::default(),
            checkpoints: None,
            state: None,
            token: token_file.map(token_file::read).transpose()?,
            hosts: host.into_iter().map(str::to_owned).collect(),
            journal_loss: flexor_master::LossPolicy::Refuse,
            plain_store: false,
        };
        let master = Master::open(config, ports, &Faults::off())?;
        let job = master.job().clone();
        let task = tokio::spawn(master.serve(std::future::pending()));
        Ok(Self { address, job, task, shared_port: None, token_file: None })
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The file with the generated token, if the user gave none.
    pub fn token_file(&self) -> Option<&Path> {
        self.token_file.as_ref().map(NamedTempFile::path)
    }

    /// Waits until the master has ended, which only an error does.
    pub async fn ended(&mut self) -> anyhow::Error {
        match (&mut self.task).await {
            Ok(Ok(())) => anyhow::anyhow!("it was stopped"),
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        }
    }

    /// Waits until all nodes have left, so that all have learnt how the run ended, or until the timeout.
    pub async fn await_departures(&self) {
        let mut decided = self.job.decided();
        let all_gone = async {
            let present =
                || self.job.with(|state, _, _| state.rendezvous(self.job.run()).map_or(0, |run| run.members().count()));
            while present() > 0 && decided.changed().await.is_ok() {}
        };
        if tokio::time::timeout(DEPARTURE_TIMEOUT, all_gone).await.is_err() {
            tracing::warn!("some nodes did not leave in time; their master ends now");
        }
    }
}

/// Where a master for all nodes listens.
async fn address_of_all(at: &Address, token_file: Option<&Path>) -> anyhow::Result<SocketAddr> {
    let host = &at.host;
    let mut found = lookup_host((host.as_str(), at.port)).await.with_context(|| format!("cannot resolve {host}"))?;
    let known = found.next().with_context(|| format!("{host} has no address"))?;
    let ip = if known.ip().is_loopback() { known.ip() } else { IpAddr::from(Ipv4Addr::UNSPECIFIED) };
    if !ip.is_loopback() && token_file.is_none() {
        tracing::warn!(
            "this node serves the rendezvous without a token, as torchrun does: let only the job's nodes reach it, \
             or set {} on all nodes",
            env::TOKEN_FILE.name
        );
    }
    Ok(SocketAddr::new(ip, at.port))
}

async fn bind(at: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(at).await.with_context(|| {
        format!(
            "this node cannot serve the others at {at}: choose another port on all nodes, or, if the job's master \
             runs there already, join it (--rdzv-backend=c10d --rdzv-endpoint, without is_host=true)"
        )
    })
}

async fn free() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await
}

/// The run that `--rdzv-id` names. torchrun's default is the text "none".
pub fn named(id: &str) -> Option<&str> {
    Some(id).filter(|id| !id.is_empty() && *id != "none")
}

/// Generates a random token, in a file that only this user can read.
fn make_token() -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("flexor-token-").tempfile()?;
    token_file::write_random(&mut file)?;
    Ok(file)
}

impl Drop for OwnMaster {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(shared_port) = &self.shared_port {
            shared_port.abort();
        }
    }
}
