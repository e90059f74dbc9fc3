//! `flexor local down`: ends the process that runs the cluster, and the pods that a killed cluster left behind.

use std::time::Duration;

use anyhow::{Context, bail};
use flexor_local::api::ClusterProcess;
use flexor_local::cluster::Cluster;
use flexor_local::state_dir::{StateDir, StateDirError};

use super::DownArgs;
use crate::cli::ClusterArgs;
use crate::exit::Exit;
use crate::signals::{self, Termination};
use crate::{logging, output, run};

/// Time between two signals with `--now`. Signals may merge, so one is not enough to make the process hurry.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// A process that has not ended within this time with `--now` is killed.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two attempts to lock the state directory: a process that holds it without serving may be starting or
/// ending.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

pub async fn run(args: &DownArgs) -> anyhow::Result<Exit> {
    logging::start_for_run();
    let state_dir = super::state_dir(args.state_dir.state_dir.as_deref())?;
    let shown = state_dir.path().display();
    let mut termination = signals::terminated()?;
    let holder = ClusterProcess::of(&state_dir).await.with_context(|| state_dir.socket().display().to_string())?;
    if let Some(holder) = &holder {
        if !end(holder, args.now, &mut termination).await {
            output::note(&format!("process {} continues to end its pods", holder.pid()));
            return Ok(Exit::Interrupted);
        }
        output::text(&format!("the laptop cluster in {shown} is down\n"))?;
    }
    // A process that was killed, now or earlier, has left its jobs behind.
    let leftover = state_dir.job_names();
    if leftover.is_empty() {
        if holder.is_none() {
            output::text(&format!("no laptop cluster is up in {shown}\n"))?;
        }
        return Ok(Exit::Success);
    }
    let cluster = take_over(args, &state_dir).await?;
    let driver = {
        let cluster = cluster.clone();
        tokio::spawn(async move { cluster.run().await })
    };
    if args.now {
        run::end_at_once(&cluster).await;
    } else {
        output::note("ends the pods of a killed cluster; Ctrl-C kills them");
        run::end_early(&cluster, &mut termination).await;
    }
    driver.abort();
    output::text(&format!("ended the jobs that a killed laptop cluster left in {shown}: {}\n", leftover.join(", ")))?;
    Ok(Exit::Success)
}

/// Ends a process. Returns false if Ctrl-C ended the wait.
async fn end(holder: &ClusterProcess, now: bool, termination: &mut Termination) -> bool {
    holder.terminate();
    if !now {
        output::note(&format!("process {} ends its pods; `flexor local down --now` kills them", holder.pid()));
        return tokio::select! {
            () = holder.ended() => true,
            _ = termination.wait() => false,
        };
    }
    let hurry = async {
        while tokio::time::timeout(SIGNAL_INTERVAL, holder.ended()).await.is_err() {
            holder.terminate();
        }
    };
    if tokio::time::timeout(END_TIMEOUT, hurry).await.is_err() {
        holder.kill();
        holder.ended().await;
    }
    true
}

/// Opens the state directory of a process that has ended.
async fn take_over(args: &DownArgs, state_dir: &StateDir) -> anyhow::Result<Cluster> {
    let options = ClusterArgs::in_state_dir(args.state_dir.state_dir.clone());
    let began = tokio::time::Instant::now();
    loop {
        match Cluster::open(run::options(&options)?) {
            Ok(cluster) => return Ok(cluster),
            Err(StateDirError::Taken(_)) if began.elapsed() < END_TIMEOUT => tokio::time::sleep(LOCK_INTERVAL).await,
            Err(StateDirError::Taken(_)) => {
                bail!(
                    "a process holds {} and does not serve; find it with `fuser`",
                    state_dir.path().join("lock").display()
                )
            }
            Err(error) => return Err(error.into()),
        }
    }
}
