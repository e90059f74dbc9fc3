//! The changes of the servers under load, and their effect on the workers.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::finish_data;
use super::load::{Calls, Load};
use crate::bench::fleet::Fleet;

/// How long the load is measured before the change, and how long it warms up before that.
const BEFORE: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_millis(500);
/// How long the load continues afterwards, so that delayed calls are answered.
const AFTER: Duration = Duration::from_millis(500);
/// How long a snapshot is held, and how much each server may set aside for it: everything it has, if necessary.
const HELD: Duration = Duration::from_secs(3);
const ROOM: u64 = 2 << 30;

/// A change of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Add,
    Replace,
    Remove,
    Checkpoint,
    Snapshot,
}

/// The effect of a change on the workers.
pub(super) struct Disturbance {
    /// The longest that one of them waited for an answer, in seconds.
    pub(super) stall: f64,
    /// Rows per second before, and while it happened.
    pub(super) before: f64,
    pub(super) meanwhile: f64,
    /// How long it took, in seconds.
    pub(super) took: f64,
}

impl Change {
    /// Makes the change in a fleet under load, and returns its effect on the workers.
    pub(super) async fn happen(self, fleet: &mut Fleet, load: &Arc<Load>) -> Result<Disturbance> {
        let at_work = load.begin(fleet.master()).await?;
        tokio::time::sleep(WARM_UP).await;
        let start = Instant::now();
        tokio::time::sleep(BEFORE).await;
        let (began, epoch) = (Instant::now(), fleet.epoch());
        self.carry_out(fleet).await.with_context(|| format!("{self}, with workers at work"))?;
        let (ended, maps) = (Instant::now(), fleet.epoch() - epoch);
        tokio::time::sleep(AFTER).await;
        let calls = at_work.end().await?;
        fleet.dismiss().await?;
        let disturbance = self.disturbance(&calls, start..began, began..ended)?;
        eprintln!("{self}: {maps} maps");
        Ok(disturbance)
    }

    async fn carry_out(self, fleet: &mut Fleet) -> Result<()> {
        match self {
            Self::Add => fleet.add("ps-2").await?,
            Self::Replace => fleet.replace("ps-1", "ps-3").await?,
            Self::Remove => fleet.let_leave("ps-2").await?,
            Self::Checkpoint => {
                finish_data(fleet.master(), "second").await?;
                ensure!(Load::connect(fleet.master()).await?.save().await?, "the data is not finished");
                return Ok(());
            }
            Self::Snapshot => {
                let mut reader = Load::connect(fleet.master()).await?;
                let _held = reader.snapshot(ROOM).await?;
                tokio::time::sleep(HELD).await;
                return Ok(());
            }
        }
        fleet.settled().await
    }

    fn disturbance(self, calls: &Calls, before: Range<Instant>, meanwhile: Range<Instant>) -> Result<Disturbance> {
        let usual = calls.longest(&before).context("nothing was answered before")?;
        let longest = calls.longest(&meanwhile).context("nothing was answered meanwhile")?;
        let disturbance = Disturbance {
            stall: longest.took().as_secs_f64(),
            before: calls.rows_per_second(&before),
            meanwhile: calls.rows_per_second(&meanwhile),
            took: meanwhile.end.duration_since(meanwhile.start).as_secs_f64(),
        };
        eprintln!(
            "{self}: {:.2} s, {:.2} M rows/s before and {:.2} M meanwhile; longest call a {:?} of {:.0} ms, begun after \
             {:.2} s; before it was a {:?} of {:.0} ms",
            disturbance.took,
            disturbance.before / 1e6,
            disturbance.meanwhile / 1e6,
            longest.what,
            1e3 * disturbance.stall,
            longest.began.saturating_duration_since(meanwhile.start).as_secs_f64(),
            usual.what,
            1e3 * usual.took().as_secs_f64()
        );
        Ok(disturbance)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "a third server comes",
            Self::Replace => "a server is replaced by another",
            Self::Remove => "a server of three leaves",
            Self::Checkpoint => "a checkpoint is written",
            Self::Snapshot => "a snapshot is held",
        })
    }
}
