//! The master of a launch that needs no other: in this process, with no journal, because it goes when the launch does.
//!
//! Alone, on free ports of this machine; for others, where torchrun's first node would serve: `--rdzv-conf is_host=true`,
//! or rank 0 of a static rendezvous.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use flexor_dialects::launch_options::{Address, LaunchOptions, Nodes};
use flexor_engine::rendezvous::Settings;
use flexor_master::faults::Faults;
use flexor_master::job::Job;
use flexor_master::{Config, Master, MasterError, Ports};
use flexor_model::JobUid;
use tokio::net::{TcpListener, lookup_host};
use tokio::task::JoinHandle;

/// What its job is called.
pub const JOB: &str = "standalone";

/// How long the others have to hear that the run is over.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Ended with its guard.
pub struct OwnMaster {
    address: SocketAddr,
    job: Job,
    task: JoinHandle<Result<(), MasterError>>,
}

impl OwnMaster {
    /// A master for this launch alone.
    pub async fn start(options: &LaunchOptions) -> anyhow::Result<Self> {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::serve(options, Nodes { min: 1, max: 1 }, here).await
    }

    /// A master for all nodes of the job, at an address of this machine.
    pub async fn start_for_all(options: &LaunchOptions, at: &Address, nodes: Nodes) -> anyhow::Result<Self> {
        let host = &at.host;
        let mut found = lookup_host((host.as_str(), at.port)).await.with_context(|| format!("{host} is not known"))?;
        let known = found.next().with_context(|| format!("{host} has no address"))?;
        let ip = if known.ip().is_loopback() { known.ip() } else { IpAddr::from(Ipv4Addr::UNSPECIFIED) };
        if !ip.is_loopback() {
            tracing::warn!(
                "this node serves the rendezvous without a token, as torchrun does: let only the job's nodes reach it"
            );
        }
        Self::serve(options, nodes, SocketAddr::new(ip, at.port)).await
    }

    async fn serve(options: &LaunchOptions, nodes: Nodes, at: SocketAddr) -> anyhow::Result<Self> {
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let grpc = TcpListener::bind(at).await.with_context(|| format!("{at} cannot be listened on"))?;
        let address = grpc.local_addr()?;
        let ports = Ports { grpc, store: free().await?, http: free().await? };
        let mut settings = Settings::new(nodes.min, nodes.max)?.with_unit(options.node_unit)?;
        settings.max_restarts = options.max_restarts;
        if let Some(last_call) = options.rendezvous_conf.last_call {
            settings.last_call = last_call;
        }
        let config = Config {
            job: JOB.parse().context("the name of the job")?,
            uid: JobUid::from(JOB),
            settings,
            state: None,
            token: None,
            plain_store: false,
        };
        let master = Master::open(config, ports, &Faults::off())?;
        let job = master.job().clone();
        Ok(Self { address, job, task: tokio::spawn(master.serve(std::future::pending())) })
    }

    /// Where it serves.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Waits until it has ended, which it does not do by itself.
    pub async fn ended(&mut self) -> anyhow::Error {
        match (&mut self.task).await {
            Ok(Ok(())) => anyhow::anyhow!("it was told to"),
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        }
    }

    /// Waits until all nodes have gone, so that all have heard how it ended; not for ever.
    pub async fn until_all_have_gone(&self) {
        let mut decided = self.job.decided();
        let all_gone = async {
            let here =
                || self.job.with(|store, _, _| store.machine(self.job.run()).map_or(0, |run| run.members().count()));
            while here() > 0 && decided.changed().await.is_ok() {}
        };
        if tokio::time::timeout(LAST_WORDS, all_gone).await.is_err() {
            tracing::warn!("some nodes did not leave in time; they find no master any more");
        }
    }
}

impl Drop for OwnMaster {
    fn drop(&mut self) {
        self.task.abort();
    }
}
