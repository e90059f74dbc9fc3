//! The peer: a change of servers in DLRover's way, with our own servers and checkpoints.
//!
//! All workers stop, a checkpoint is written, and all servers end. The new set starts and reads the checkpoint, and the
//! workers reconnect. Only the strategy differs from ours. Further waits of the original are not counted: its workers
//! poll every ten seconds whether the set has changed, and all of them restart.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::load::Load;
use crate::bench::fleet::Fleet;

/// How long workers work before and after.
const AT_WORK: Duration = Duration::from_secs(1);

/// How long no worker made progress, in seconds.
pub(super) struct Downtime {
    /// From the last answer of the old servers to the first one of the new ones.
    pub(super) change: f64,
    /// Until the checkpoint was written: its cost without load.
    pub(super) checkpoint: f64,
}

/// Changes the set to three servers, which stay running, and returns the downtime.
pub(super) async fn change(
    program: &Path,
    old: Fleet,
    load: &Arc<Load>,
    checkpoints: &Path,
) -> Result<(Fleet, Downtime)> {
    let at_work = load.begin(old.master()).await?;
    tokio::time::sleep(AT_WORK).await;
    let last = at_work.end().await?.last().context("nothing was answered by the old servers")?;
    ensure!(Load::connect(old.master()).await?.save().await?, "the data is not finished");
    let checkpoint = last.elapsed().as_secs_f64();
    drop(old);
    let ended = Instant::now();
    let new = Fleet::start(program, 3, Some(checkpoints)).await?;
    let at_work = load.begin(new.master()).await?;
    tokio::time::sleep(AT_WORK).await;
    let first = at_work.end().await?.first().context("nothing was answered by the new servers")?;
    let change = first.duration_since(last).as_secs_f64();
    eprintln!(
        "all stop for a third server: {change:.2} s without progress; {checkpoint:.2} s of it until a checkpoint was \
         written, {:.2} s until the new servers answered",
        first.duration_since(ended).as_secs_f64()
    );
    Ok((new, Downtime { change, checkpoint }))
}
