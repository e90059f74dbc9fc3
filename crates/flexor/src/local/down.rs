//! `flexor local down`: ends the process that runs the cluster, and whatever one that was killed has left.

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

/// How soon a process is asked again to hurry: which signals were heard cannot be known.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// A process that has not ended after so long, in a hurry, is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Somebody who has the folder but does not serve may be about to begin, or to end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub async fn run(args: &DownArgs) -> anyhow::Result<Exit> {
    logging::start_for_run();
    let state_dir = super::state_dir(args.state_dir.state_dir.as_deref())?;
    let shown = state_dir.path().display();
    let mut termination = signals::terminated()?;
    let holder = ClusterProcess::of(&state_dir).await.with_context(|| state_dir.socket().display().to_string())?;
    if let Some(holder) = &holder {
        if !end(holder, args.now, &mut termination).await {
            output::note(&format!("process {} goes on ending its pods", holder.pid()));
            return Ok(Exit::Interrupted);
        }
        output::text(&format!("the laptop cluster in {shown} is down\n"))?;
    }
    // A process that was killed, now or earlier, has left its pods behind.
    let left = state_dir.job_names();
    if left.is_empty() {
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
        output::note("ends what was left; Ctrl-C kills it");
        run::end_early(&cluster, &mut termination).await;
    }
    driver.abort();
    output::text(&format!("what a killed laptop cluster had left in {shown} is ended: {}\n", left.join(", ")))?;
    Ok(Exit::Success)
}

/// Has a process end, and says whether it has. Ctrl-C ends the waiting.
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
        while tokio::time::timeout(ASK_AGAIN, holder.ended()).await.is_err() {
            holder.terminate();
        }
    };
    if tokio::time::timeout(PATIENCE, hurry).await.is_err() {
        holder.kill();
        holder.ended().await;
    }
    true
}

/// Takes the folder of a process that is gone.
async fn take_over(args: &DownArgs, state_dir: &StateDir) -> anyhow::Result<Cluster> {
    let options = ClusterArgs::in_folder(args.state_dir.state_dir.clone());
    let begun = tokio::time::Instant::now();
    loop {
        match Cluster::open(run::options(&options)?) {
            Ok(cluster) => return Ok(cluster),
            Err(StateDirError::Taken(_)) if begun.elapsed() < PATIENCE => tokio::time::sleep(LOOK_AGAIN).await,
            Err(StateDirError::Taken(_)) => {
                bail!(
                    "a process holds {} and does not serve; look for it with `fuser`",
                    state_dir.path().join("lock").display()
                )
            }
            Err(error) => return Err(error.into()),
        }
    }
}
