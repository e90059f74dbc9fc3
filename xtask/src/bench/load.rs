//! Load on a master from many nodes with a fixed number of concurrent requests, and its cost for the master.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::process_cost;

/// Requests under way at a time.
pub(super) const OUTSTANDING: usize = 64;

/// Caches are filled and code is loaded before anything counts.
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(3);

/// Some of the nodes, of which one at a time has a request in flight.
pub(super) trait Lane: Send + 'static {
    /// Sends the request of this turn and waits for its answer.
    fn ask(&mut self, turn: usize) -> impl Future<Output = Result<()>> + Send;
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Requests that were answered, per second.
    pub(super) per_second: f64,
    /// Microseconds of the master's CPU for each.
    pub(super) cpu_micros: f64,
    /// The master's memory at the end, in MiB.
    pub(super) resident_mib: f64,
}

/// Lets all lanes ask one request after the other, and measures the process `pid` that answers.
pub(super) async fn drive<L: Lane>(lanes: Vec<L>, pid: u32) -> Result<Load> {
    let started = Instant::now();
    let (begin, end) = (started + WARM_UP, started + WARM_UP + MEASURED);
    let mut tasks = JoinSet::new();
    for lane in lanes {
        tasks.spawn(ask_until(lane, begin, end));
    }
    tokio::time::sleep_until(begin.into()).await;
    let cpu_before = process_cost::cpu_seconds(pid)?;
    tokio::time::sleep_until(end.into()).await;
    let cpu_seconds = process_cost::cpu_seconds(pid)? - cpu_before;
    let resident_mib = process_cost::resident_mib(pid)?;
    let mut answered = 0;
    while let Some(lane) = tasks.join_next().await {
        answered += lane??;
    }
    let answered = answered as f64;
    Ok(Load { per_second: answered / MEASURED.as_secs_f64(), cpu_micros: cpu_seconds * 1e6 / answered, resident_mib })
}

/// How many were answered between `begin` and `end`.
async fn ask_until(mut lane: impl Lane, begin: Instant, end: Instant) -> Result<u64> {
    let mut answered = 0;
    for turn in 0.. {
        lane.ask(turn).await?;
        let now = Instant::now();
        if now >= end {
            break;
        }
        answered += u64::from(now >= begin);
    }
    Ok(answered)
}
