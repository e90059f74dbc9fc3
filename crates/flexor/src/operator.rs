//! `flexor operator`: runs the controller of a Kubernetes cluster.

use std::net::SocketAddr;

use clap::Args;
use flexor_operator::Options;

use crate::exit::Exit;
use crate::{logging, output, signals};

/// Arguments of `flexor operator`.
#[derive(Debug, Args)]
pub struct OperatorArgs {
    /// Image of Flexor's own containers: masters, parameter servers and sidecars of jobs [default: the image of the pod
    /// that POD_NAME names, else flexor:latest]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Address of /live, /ready and /metrics
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub http: SocketAddr,
    /// For tests with fake nodes: dial no master
    #[arg(long, hide = true)]
    pub no_master_feeds: bool,
    /// For tests: abort after so many actions, as if killed there
    #[arg(long, value_name = "ACTIONS", hide = true)]
    pub abort_after: Option<u64>,
}

pub fn run(args: &OperatorArgs) -> anyhow::Result<Exit> {
    logging::start_for_operator();
    signals::allow_many_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let options = Options {
        image: args.image.clone(),
        http: args.http,
        feeds_masters: !args.no_master_feeds,
        abort_after: args.abort_after,
    };
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
