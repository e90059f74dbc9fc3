//! The process in the background: a cluster without a terminal, until it is asked to end.
//!
//! What is wrong before it serves goes to whoever started it. Then it says so, and from there on it speaks to a log in
//! its folder.

use std::time::Duration;

use anyhow::Context;
use flexor_local::api;
use flexor_local::cluster::{Cluster, Options};
use flexor_local::state_dir::StateDirError;

use super::own_log::OwnLog;
use crate::cli::ClusterArgs;
use crate::exit::Exit;
use crate::{logging, output, run, signals};

/// What it says once it serves.
pub const SERVES: &str = "serves\n";
/// What it says where another has the folder already.
pub const TAKEN: &str = "taken\n";
/// How often the size of the log is looked at.
const LOOK_AT_LOG: Duration = Duration::from_secs(10);

pub async fn run(args: &ClusterArgs) -> anyhow::Result<Exit> {
    logging::start_for_run();
    signals::allow_many_files();
    // Whoever ends the terminal does not mean the cluster.
    let _ = nix::unistd::setsid();
    let mut termination = signals::terminated()?;
    let cluster = match Cluster::open(Options { background: true, ..run::options(args)? }) {
        Ok(cluster) => cluster,
        Err(StateDirError::Taken(_)) => {
            output::text(TAKEN)?;
            return Ok(Exit::Infrastructure);
        }
        Err(error) => {
            output::note(&format!("error: {error}"));
            return Ok(Exit::Infrastructure);
        }
    };
    let served = api::serve(cluster.clone()).context("other terminals cannot be answered; try another --state-dir")?;
    let mut log = OwnLog::open(&cluster.state_dir().log())?;
    output::text(SERVES)?;
    log.take_over()?;
    log.turn_page()?;
    output::note(&format!("{} up as process {}", now(), std::process::id()));
    let mut driver = {
        let cluster = cluster.clone();
        tokio::spawn(async move { cluster.run().await })
    };
    loop {
        tokio::select! {
            ended = &mut driver => {
                ended.context("the cluster")?.context("the cluster cannot hear of its pods")?;
            }
            () = tokio::time::sleep(LOOK_AT_LOG) => {
                if let Err(error) = log.turn_page() {
                    tracing::warn!("the log cannot be put aside: {}", output::with_causes(&error));
                }
            }
            _ = termination.wait() => break,
        }
    }
    output::note(&format!("{} is asked to end", now()));
    run::end_early(&cluster, &mut termination).await;
    served.finish().await;
    driver.abort();
    output::note(&format!("{} down", now()));
    Ok(Exit::Success)
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_else(|_| jiff::Timestamp::now())
}
