//! Workers that only pull and push rows, and a record of every call.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, Gradients, PullFor};
use flexor_ps::layout::TableId;
use flexor_ps::push::NonFinite;
use flexor_ps::spec::{Initializer, ModelSpec, Optimizer, TableSpec};
use tokio::task::JoinSet;

/// How many workers.
pub(super) const WORKERS: u64 = 2;
/// Rows of a batch.
pub(super) const BATCH: u64 = 10_000;
const DIM: usize = 16;
/// The size of a row: its key, its step, its weights and twice as much for Adam.
pub(super) const ROW_BYTES: u64 = 8 + 4 + 3 * 4 * DIM as u64;
const TABLE: TableId = TableId(0);
/// A dataset that the master does not know, so that it closes none of its batches.
const DATASET: u32 = 1_000_000;
/// Keys of a batch are so far from each other: they are all different, and their rows lie in no order.
const STRIDE: u64 = 1_000_003;

/// One call of a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) what: CallKind,
    pub(super) began: Instant,
    pub(super) ended: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    Pull,
    Push,
}

/// The state that all workers share.
pub(super) struct Load {
    rows: u64,
    /// Every push is a separate batch.
    pushed: AtomicU64,
}

pub(super) struct RunningWorkers {
    stop: Arc<AtomicBool>,
    workers: JoinSet<Result<Vec<Call>>>,
}

/// All calls of some workers.
pub(super) struct Calls(Vec<Call>);

impl Load {
    /// A load on a table of this many rows.
    pub(super) fn of(rows: u64) -> Arc<Self> {
        Arc::new(Self { rows, pushed: AtomicU64::new(0) })
    }

    pub(super) async fn connect(master: &str) -> Result<Client> {
        let table = TableSpec { name: "rows".to_owned(), dim: DIM as u32, init: Initializer::UNIFORM };
        let (variables, optimizer) = (Vec::new(), Optimizer::adam(0.001));
        let spec = ModelSpec { variables, tables: vec![table], optimizer, seed: 1 };
        Client::connect(master, None, spec).await.context("a worker cannot connect")
    }

    /// Makes all rows.
    pub(super) async fn fill(&self, master: &str) -> Result<()> {
        let mut workers = JoinSet::new();
        for worker in 0..WORKERS {
            let (mut client, rows) = (Self::connect(master).await?, self.rows);
            workers.spawn(async move {
                let mut pulled = Vec::new();
                for first in (0..rows).step_by(BATCH as usize).skip(worker as usize).step_by(WORKERS as usize) {
                    let keys: Vec<u64> = (first..(first + BATCH).min(rows)).collect();
                    client.pull(&[(TABLE, &keys)], PullFor::Training, &mut pulled).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(filled) = workers.join_next().await {
            filled??;
        }
        Ok(())
    }

    /// Sets the workers to work. They connect first.
    pub(super) async fn begin(self: &Arc<Self>, master: &str) -> Result<RunningWorkers> {
        let (stop, mut workers) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for worker in 0..WORKERS {
            let client = Self::connect(master).await?;
            workers.spawn(Arc::clone(self).work(worker, client, Arc::clone(&stop)));
        }
        Ok(RunningWorkers { stop, workers })
    }

    async fn work(self: Arc<Self>, worker: u64, mut client: Client, stop: Arc<AtomicBool>) -> Result<Vec<Call>> {
        let gradients = vec![0.01; BATCH as usize * DIM];
        let (mut pulled, mut calls) = (Vec::new(), Vec::new());
        let mut first = worker * self.rows / WORKERS;
        while !stop.load(Ordering::Relaxed) {
            first = (first + BATCH * STRIDE) % self.rows;
            let keys: Vec<u64> = (0..BATCH).map(|place| (first + place * STRIDE) % self.rows).collect();
            let began = Instant::now();
            client.pull(&[(TABLE, &keys)], PullFor::Training, &mut pulled).await?;
            let between = Instant::now();
            let number = self.pushed.fetch_add(1, Ordering::Relaxed);
            let push = Gradients {
                batch: BatchId { dataset: DATASET, epoch: 0, first: number, len: 1 },
                learning_rate: 0.0,
                rows: &[(TABLE, &keys, &gradients)],
                variables: &[],
                rewind_epoch: None,
                non_finite: NonFinite::Refuse,
            };
            client.push(&push).await?;
            calls.push(Call { what: CallKind::Pull, began, ended: between });
            calls.push(Call { what: CallKind::Push, began: between, ended: Instant::now() });
        }
        Ok(calls)
    }
}

impl RunningWorkers {
    /// Ends the work, each worker with its next batch.
    pub(super) async fn end(mut self) -> Result<Calls> {
        self.stop.store(true, Ordering::Relaxed);
        let mut calls = Vec::new();
        while let Some(worker) = self.workers.join_next().await {
            calls.extend(worker??);
        }
        Ok(Calls(calls))
    }
}

impl Calls {
    /// The longest call that overlaps this period.
    pub(super) fn longest(&self, time: &Range<Instant>) -> Option<Call> {
        let touches = |call: &&Call| call.ended > time.start && call.began < time.end;
        self.0.iter().filter(touches).max_by_key(|call| call.took()).copied()
    }

    /// Rows per second, pulled and pushed, of the calls that were answered meanwhile.
    pub(super) fn rows_per_second(&self, time: &Range<Instant>) -> f64 {
        let calls = self.0.iter().filter(|call| time.contains(&call.ended)).count() as u64;
        (calls * BATCH) as f64 / time.end.duration_since(time.start).as_secs_f64()
    }

    /// When the last call was answered.
    pub(super) fn last(&self) -> Option<Instant> {
        self.0.iter().map(|call| call.ended).max()
    }

    /// When the first call was answered.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.iter().map(|call| call.ended).min()
    }
}

impl Call {
    pub(super) fn took(&self) -> Duration {
        self.ended.duration_since(self.began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_for_all_the_time_it_was_under_way() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let call = |began, ended| Call { what: CallKind::Pull, began: at(began), ended: at(ended) };
        let calls = Calls(vec![call(0, 10), call(10, 400), call(400, 420)]);
        assert_eq!(calls.longest(&(at(100)..at(200))).unwrap().took(), Duration::from_millis(390));
        assert_eq!(calls.longest(&(at(401)..at(410))).unwrap().took(), Duration::from_millis(20));
        assert!((calls.rows_per_second(&(at(0)..at(500))) - 60_000.0).abs() < 1e-6);
        assert_eq!((calls.first(), calls.last()), (Some(at(10)), Some(at(420))));
    }
}
