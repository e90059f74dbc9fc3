//! Runs clients against a server and measures throughput and the server's CPU time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::bench::process_cost::cpu_seconds;

/// Caches are filled and code is loaded before anything counts.
const WARM_UP: Duration = Duration::from_millis(200);
const MEASURED: Duration = Duration::from_secs(1);
/// A slow server need not do all that there is to do.
const MOST: Duration = Duration::from_secs(3);

/// One client with one request under way.
pub(super) trait Lane: Send {
    /// Sends the request of this turn and waits for its answer; how many rows it was for, or none if there are no more.
    fn ask(&mut self, turn: usize) -> Pin<Box<dyn Future<Output = Result<Option<u64>>> + Send + '_>>;
}

/// The clients of a phase.
pub(super) type Lanes = Vec<Box<dyn Lane>>;

#[derive(Debug, Clone, Copy)]
pub(super) struct Measurement {
    pub(super) rows_per_second: f64,
    /// Microseconds of the server's CPU for each row.
    pub(super) cpu_micros: f64,
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} M rows/s ({:.3} us)", self.rows_per_second / 1e6, self.cpu_micros)
    }
}

/// Each client makes its requests once; a slow server is cut off at a time limit.
pub(super) async fn until_done(lanes: Lanes, pid: u32) -> Result<Measurement> {
    Ok(drive(lanes, pid, MOST).await?.0)
}

/// Each client asks again and again.
pub(super) async fn for_a_while(lanes: Lanes, pid: u32) -> Result<Measurement> {
    let (_, lanes) = drive(lanes, pid, WARM_UP).await?;
    Ok(drive(lanes, pid, MEASURED).await?.0)
}

async fn drive(lanes: Lanes, pid: u32, most: Duration) -> Result<(Measurement, Lanes)> {
    let (began, cpu) = (Instant::now(), cpu_seconds(pid)?);
    let mut tasks = JoinSet::new();
    for mut lane in lanes {
        tasks.spawn(async move {
            let mut rows = 0;
            for turn in 0.. {
                let Some(more) = lane.ask(turn).await? else { break };
                rows += more;
                if began.elapsed() >= most {
                    break;
                }
            }
            anyhow::Ok((rows, lane))
        });
    }
    let (mut rows, mut lanes) = (0, Lanes::new());
    while let Some(done) = tasks.join_next().await {
        let (more, lane) = done??;
        rows += more;
        lanes.push(lane);
    }
    ensure!(rows > 0, "the server answered nothing");
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds(pid)? - cpu);
    Ok((Measurement { rows_per_second: rows as f64 / seconds, cpu_micros: cpu * 1e6 / rows as f64 }, lanes))
}
