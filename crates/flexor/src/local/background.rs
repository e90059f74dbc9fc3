//! The background process of `flexor local up`: runs a cluster without a terminal until a signal ends it.
//!
//! Until its API serves, the process reports errors to `up` over its standard streams. Then it prints [`SERVES`], and
//! redirects both streams to a log in the state directory.

use std::time::Duration;

use anyhow::Context;
use flexor_local::api;
use flexor_local::cluster::{Cluster, Options};
use flexor_local::state_dir::StateDirError;

use super::own_log::OwnLog;
use crate::cli::ClusterArgs;
use crate::exit::Exit;
use crate::{logging, output, run, signals};

/// Printed to `up` when the API serves.
pub const SERVES: &str = "serves\n";
/// Printed to `up` when another process holds the state directory.
pub const TAKEN: &str = "taken\n";
/// Time between two checks of the size of the log.
const LOG_CHECK_INTERVAL: Duration = Duration::from_secs(10);

pub async fn run(args: &ClusterArgs) -> anyhow::Result<Exit> {
    logging::start_for_run();
    signals::allow_many_files();
    // Signals of the terminal do not reach a session of its own.
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
    let served = api::serve(cluster.clone()).context("cannot serve the API socket; try another --state-dir")?;
    let mut log = OwnLog::open(&cluster.state_dir().log())?;
    output::text(SERVES)?;
    log.redirect_output()?;
    log.rotate_if_full()?;
    output::note(&format!("{} up as process {}", now(), std::process::id()));
    let mut driver = {
        let cluster = cluster.clone();
        tokio::spawn(async move { cluster.run().await })
    };
    loop {
        tokio::select! {
            ended = &mut driver => {
                ended.context("the cluster")?.context("the cluster cannot watch its pods")?;
            }
            () = tokio::time::sleep(LOG_CHECK_INTERVAL) => {
                if let Err(error) = log.rotate_if_full() {
                    tracing::warn!("cannot rotate the log: {}", output::with_causes(&error));
                }
            }
            _ = termination.wait() => break,
        }
    }
    output::note(&format!("{} received a signal to end", now()));
    run::end_early(&cluster, &mut termination).await;
    served.finish().await;
    driver.abort();
    output::note(&format!("{} down", now()));
    Ok(Exit::Success)
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_else(|_| jiff::Timestamp::now())
}
