//! How long one plan of a large cluster takes.
//!
//! Counted are the copy of nodes, pods and jobs that a plan works on, and [`ClusterPlanner::plan`] from it to the
//! assignments. The first plan starts all jobs at once and is listed by itself. A few more fill the cluster. The plans
//! that count are those of a full cluster in which something has changed.
//!
//! [`ClusterPlanner::plan`]: flexor_control::ClusterPlanner::plan

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::cluster::Cluster;
use super::{Row, Setup};

/// Plans before those that count.
const WARM_UP: u32 = 10;
/// Milliseconds for the 99th percentile of a thousand nodes and a thousand jobs.
const MARK: f64 = 50.0;

/// The plans of one cluster, in milliseconds.
struct Plans {
    first: f64,
    /// From the shortest to the longest.
    sorted: Vec<f64>,
}

impl Plans {
    fn of(setup: &Setup, seed: u32) -> Result<Self> {
        let (nodes, jobs) = (setup.sizes.get("nodes")?, setup.sizes.get("jobs")?);
        let mut cluster = Cluster::new(nodes, jobs, seed.into())?;
        let first = timed(&mut cluster);
        for _ in 0..WARM_UP {
            cluster.go_on()?;
            timed(&mut cluster);
        }
        eprintln!("seed {seed}: {}", cluster.describe());
        let mut sorted = Vec::new();
        for _ in 0..setup.sizes.get("plans")? {
            cluster.go_on()?;
            sorted.push(timed(&mut cluster));
        }
        sorted.sort_by(f64::total_cmp);
        let plans = Self { first, sorted };
        eprintln!(
            "seed {seed}: p50 {:.1} ms, p99 {:.1} ms, first {first:.1} ms; then {}",
            plans.percentile(50)?,
            plans.percentile(99)?,
            cluster.describe()
        );
        Ok(plans)
    }

    fn percentile(&self, percent: usize) -> Result<f64> {
        let rank = (self.sorted.len() * percent).div_ceil(100).max(1);
        self.sorted.get(rank - 1).copied().context("no plan was made; give --size plans=N")
    }
}

/// Milliseconds of one plan.
fn timed(cluster: &mut Cluster) -> f64 {
    let began = Instant::now();
    let observed = cluster.observe();
    cluster.plan(&observed);
    millis(began.elapsed())
}

fn millis(time: Duration) -> f64 {
    1000.0 * time.as_secs_f64()
}

pub(super) fn run(setup: &Setup) -> Result<Vec<Row>> {
    let (nodes, jobs, seed) = (setup.sizes.get("nodes")?, setup.sizes.get("jobs")?, setup.sizes.get("seed")?);
    let runs = (seed..seed.saturating_add(setup.repeats)).map(|seed| Plans::of(setup, seed));
    let runs: Vec<Plans> = runs.collect::<Result<_>>()?;
    let of = |percent| runs.iter().map(|run| run.percentile(percent)).collect::<Result<Vec<f64>>>();
    let metric = |what: &str| format!("{nodes} nodes and {jobs} jobs, one plan: {what}");
    let first: Vec<f64> = runs.iter().map(|run| run.first).collect();
    Ok(vec![
        Row::within(&metric("p50"), "ms", &of(50)?, f64::NAN)?.for_information(),
        Row::within(&metric("p99"), "ms", &of(99)?, MARK)?,
        Row::within(&metric("longest"), "ms", &of(100)?, f64::NAN)?.for_information(),
        Row::within(&metric("the first, of all jobs at once"), "ms", &first, f64::NAN)?.for_information(),
    ])
}
