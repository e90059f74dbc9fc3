//! Prefetches the next batch while the current one is computed: leases it, reads it, and pulls its parameters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flexor_data::Dataset;
use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, PullFor, PullOutcome, Versions};
use flexor_ps::layout::TableId;
use flexor_wire::master::v1 as wire;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::load_counters::{LoadCounters, Part};
use super::{DATASET, SyncSteps, TrainingError};
use crate::batch_reader::read;
use crate::features::Features;
use crate::ledger::LedgerClient;
use crate::models::Model;
use crate::{Batch, Lookup, TableLookup};

/// Batches per lease.
const LEASE_BATCHES: u64 = 8;
/// Batches prepared ahead. Pulled parameters are this many batches old when they are used.
const PREFETCHED_BATCHES: usize = 1;

/// A batch with everything that a training step needs.
pub(super) struct PreparedBatch {
    pub(super) id: BatchId,
    /// Acknowledged after the push. It carries the count of skipped records.
    pub(super) held: wire::LeasedBatches,
    pub(super) batch: Batch,
    pub(super) lookup: Lookup,
    pub(super) variables: Vec<Vec<f32>>,
    pub(super) rows: Vec<Vec<f32>>,
    /// The versions of the pulled parameters, where staleness matters.
    pub(super) versions: Versions,
    /// The map epoch of the last rewind of all servers, at the time of the lease.
    pub(super) rewind_epoch: u64,
}

/// Reads a leased batch and pulls its parameters.
pub(super) struct BatchLoader {
    pub(super) dataset: Arc<Dataset>,
    pub(super) features: Features,
    /// Computes which rows a batch needs.
    pub(super) lookup_model: Box<dyn Model>,
    pub(super) batch: Batch,
    /// Records per batch; the last batch of an epoch may be smaller.
    pub(super) size: u32,
    /// How long the data of a batch takes to arrive, beyond reading it.
    pub(super) delay: Duration,
    pub(super) steps: Option<SyncSteps>,
    /// Pull the parameters with their versions.
    pub(super) by_version: bool,
    pub(super) load: Arc<LoadCounters>,
}

/// Prepares batches on a task of its own.
pub(super) struct BatchPrefetcher {
    pub(super) loader: BatchLoader,
    pub(super) client: Client,
    pub(super) ledger: Arc<LedgerClient>,
}

impl BatchPrefetcher {
    /// Prepares batches until none is left. The task returns `self`, so it can start again.
    pub(super) fn start(self) -> (mpsc::Receiver<Result<PreparedBatch, TrainingError>>, JoinHandle<Self>) {
        let (prepared, receiver) = mpsc::channel(PREFETCHED_BATCHES);
        (receiver, tokio::spawn(self.run(prepared)))
    }

    async fn run(mut self, prepared: mpsc::Sender<Result<PreparedBatch, TrainingError>>) -> Self {
        loop {
            // In synchronous training single batches spread a step over all workers.
            let batches = if self.loader.steps.is_some() { 1 } else { LEASE_BATCHES };
            let lease = match self.ledger.lease(DATASET, batches).await {
                Ok(Some(lease)) => lease,
                Ok(None) => return self,
                Err(error) => {
                    let _ = prepared.send(Err(error.into())).await;
                    return self;
                }
            };
            for batch in &lease.batches {
                let next = match self.loader.next(&mut self.client, &lease, batch).await {
                    Ok(Some(next)) => Ok(next),
                    Ok(None) => match self.ledger.release(held(&lease, batch)).await {
                        Ok(()) => continue,
                        Err(error) => Err(error.into()),
                    },
                    Err(error) => Err(error),
                };
                let failed = next.is_err();
                if prepared.send(next).await.is_err() || failed {
                    return self;
                }
            }
        }
    }
}

impl BatchLoader {
    /// The prepared batch; `None` if its step is gone after a rewind.
    async fn next(
        &mut self,
        client: &mut Client,
        lease: &wire::Lease,
        of: &wire::Batch,
    ) -> Result<Option<PreparedBatch>, TrainingError> {
        let (dataset, features) = (self.dataset.clone(), &mut self.features);
        let batch = &mut self.batch;
        let range = of.first..of.first + of.count;
        let began = Instant::now();
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let skipped_records = tokio::task::block_in_place(|| read(&dataset, features, range, batch))?.len() as u64;
        self.load.add(Part::Read, began);
        let began = Instant::now();
        let mut lookup = Lookup::default();
        self.lookup_model.look_up(&self.batch, &mut lookup);
        let mut rows = Vec::new();
        let wanted: Vec<(TableId, &[u64])> =
            (0..).map(TableId).zip(lookup.tables().iter().map(TableLookup::keys)).collect();
        let why = match (of.step, self.steps) {
            (Some(step), Some(steps)) => PullFor::Step {
                committed: step.saturating_sub(u64::from(steps.tolerance)),
                rewind_epoch: lease.rewind_epoch,
            },
            _ if self.by_version => PullFor::TrainingWithVersions,
            _ => PullFor::Training,
        };
        match client.pull(&wanted, why, &mut rows).await? {
            PullOutcome::Complete => {}
            // Servers and data may have been rewound. Then the lease is void.
            PullOutcome::StepVoid => {
                tracing::warn!(
                    batch = of.number,
                    step = of.step,
                    "batch released: the servers were rewound before its step"
                );
                return Ok(None);
            }
        }
        self.load.add(Part::Pull, began);
        let (variables, versions) = (client.variables(), client.versions().clone());
        let first = of.number * u64::from(self.size);
        let len = u32::try_from(of.count).unwrap_or(u32::MAX);
        let id = BatchId { dataset: lease.dataset, epoch: lease.epoch, first, len };
        let step = of.step.filter(|_| skipped_records > 0);
        let held = wire::LeasedBatches { skipped_records, step, ..held(lease, of) };
        Ok(Some(PreparedBatch {
            id,
            held,
            batch: self.batch.clone(),
            lookup,
            variables,
            rows,
            versions,
            rewind_epoch: lease.rewind_epoch,
        }))
    }
}

fn held(lease: &wire::Lease, of: &wire::Batch) -> wire::LeasedBatches {
    let lease = lease.held.unwrap_or_default().lease;
    wire::LeasedBatches { lease, first: of.number, count: 1, ..wire::LeasedBatches::default() }
}
