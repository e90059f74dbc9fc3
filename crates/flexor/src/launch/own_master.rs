//! The master of a launch that needs no other: in this process, on ports of this machine, with no journal, because it
//! goes when the launch does.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use flexor_dialects::launch_options::LaunchOptions;
use flexor_engine::rendezvous::Settings;
use flexor_master::faults::Faults;
use flexor_master::{Config, Master, MasterError, Ports};
use flexor_model::JobUid;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What its job is called.
pub const JOB: &str = "standalone";

/// Ended with its guard.
pub struct OwnMaster {
    address: SocketAddr,
    task: JoinHandle<Result<(), MasterError>>,
}

impl OwnMaster {
    pub async fn start(options: &LaunchOptions) -> anyhow::Result<Self> {
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let ports = Ports { grpc: free().await?, store: free().await?, http: free().await? };
        let address = ports.grpc.local_addr()?;
        let mut settings = Settings::new(1, 1)?;
        settings.max_restarts = options.max_restarts;
        let config = Config {
            job: JOB.parse().context("the name of the job")?,
            uid: JobUid::from(JOB),
            settings,
            state: None,
            token: None,
            plain_store: false,
        };
        let master = Master::open(config, ports, &Faults::off())?;
        Ok(Self { address, task: tokio::spawn(master.serve(std::future::pending())) })
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

/// Waits until it has ended, which it does not do by itself. For ever, where there is none.
pub async fn ended(own: Option<OwnMaster>) -> anyhow::Error {
    let Some(mut own) = own else { return std::future::pending().await };
    match (&mut own.task).await {
        Ok(Ok(())) => anyhow::anyhow!("it was told to"),
        Ok(Err(error)) => error.into(),
        Err(error) => error.into(),
    }
}

impl Drop for OwnMaster {
    fn drop(&mut self) {
        self.task.abort();
    }
}
