//! EDL's autoscaler of 2017, with its defects: they are what the experiment compares with.
//!
//! One sum decides: the requests of all pods, pending and ending ones included, against 97 % of all cores. Whether a
//! node fits a pod is asked only on the way up, and the bookkeeping of that has its sign wrong.

use super::JobShape;
use super::cluster::{Kind, Millis, SimCluster};

/// Seconds between two cycles.
pub(super) const PERIOD: u32 = 5;

/// A job as the autoscaler sees it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Position of the job.
    job: usize,
    min: u32,
    max: u32,
    /// What a trainer requests.
    cpu: Millis,
    parallelism: u32,
    planned: u32,
}

impl Row {
    pub(super) fn new(job: usize, parallelism: u32, shape: &JobShape) -> Self {
        let (min, max, cpu) = (shape.min, shape.max, shape.trainer_cores * 1000);
        Self { job, min, max, cpu, parallelism, planned: parallelism }
    }

    /// The part of the way from the least to the most trainers, in fixed point. It is read from the size before the
    /// cycle, so the order never changes within one.
    fn fulfilment(&self) -> u64 {
        let span = u64::from(self.max - self.min);
        let grown = u64::from(self.parallelism.saturating_sub(self.min)) << 32;
        grown.checked_div(span).unwrap_or(1 << 32)
    }
}

/// One cycle. Returns the parallelism of each job that takes part.
pub(super) fn cycle(cluster: &SimCluster, jobs: Vec<Row>, standing_load: Millis) -> Vec<(usize, u32)> {
    let total: u64 = cluster.nodes.iter().map(|node| u64::from(node.cpu)).sum();
    let limit = total * 97 / 100;
    let load: u64 = cluster.pods.values().map(|pod| u64::from(pod.cpu)).sum();
    let mut requested = load + u64::from(standing_load);
    let mut idle: Vec<u64> = cluster.nodes.iter().map(|node| node.free.into()).collect();
    let mut rows = eligible(cluster, jobs);
    rows.sort_by_key(|row| (row.fulfilment(), row.cpu));
    loop {
        let mut changed = false;
        for row in rows.iter_mut().filter(|row| row.planned < row.max) {
            let cpu = u64::from(row.cpu);
            let Some(node) = idle.iter_mut().find(|idle| **idle >= cpu) else { continue };
            if requested + cpu <= limit {
                row.planned += 1;
                requested += cpu;
                // The defect: a planned pod adds to the idle room of its node.
                *node += cpu;
                changed = true;
            }
        }
        for row in rows.iter_mut().rev() {
            let shrinks = row.planned > row.max || (requested > limit && row.planned > row.min);
            if shrinks {
                row.planned -= 1;
                requested -= u64::from(row.cpu);
                changed = true;
            }
        }
        if !changed {
            return rows.into_iter().map(|row| (row.job, row.planned)).collect();
        }
    }
}

/// Jobs whose trainers all run; every job as soon as one has none that runs.
fn eligible(cluster: &SimCluster, mut jobs: Vec<Row>) -> Vec<Row> {
    // Trainers in all, ending ones included; running; pending.
    let counts = |row: &Row| {
        let (mut total, mut running, mut pending) = (0, 0, 0);
        for (_, pod) in cluster.of(Kind::Trainer, Some(row.job)) {
            total += 1;
            running += u32::from(pod.running && pod.is_live());
            pending += u32::from(!pod.running && pod.is_live());
        }
        (total, running, pending)
    };
    let have_pending = jobs.iter().map(counts).any(|(total, _, pending)| total == pending);
    jobs.retain(|row| {
        let (total, running, _) = counts(row);
        have_pending || total == running
    });
    jobs
}
