//! `flexor operator`: runs the controller of a Kubernetes cluster.

use std::net::SocketAddr;

use clap::Args;
use flexor_operator::Options;

use crate::exit::Exit;
use crate::{logging, output, signals};

/// Arguments of `flexor operator`.
#[derive(Debug, Args)]
pub struct OperatorArgs {
    /// Image of Flexor's own containers: masters, parameter servers and sidecars of jobs
    #[arg(long, value_name = "IMAGE", default_value = "flexor:latest")]
    pub image: String,
    /// Address of /live, /ready and /metrics
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub http: SocketAddr,
}

pub fn run(args: &OperatorArgs) -> anyhow::Result<Exit> {
    logging::start();
    signals::allow_many_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let options = Options { image: args.image.clone(), http: args.http };
    runtime.block_on(async {
        let mut termination = signals::terminated()?;
        let mut exit = Exit::Success;
        match flexor_operator::run(options, async { exit = termination.wait().await }).await {
            Ok(()) => Ok(exit),
            Err(error) => {
                output::note(&format!("error: {error}"));
                Ok(Exit::Infrastructure)
            }
        }
    })
}
