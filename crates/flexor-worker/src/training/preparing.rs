//! The next batch, while the one before is computed: leased, read, and its values pulled.

use std::sync::Arc;

use flexor_data::Dataset;
use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, PullFor, PullOutcome, Versions};
use flexor_ps::layout::TableId;
use flexor_wire::master::v1 as wire;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{DATASET, Steps, TrainingError};
use crate::features::Features;
use crate::ledger::Ledger;
use crate::models::Model;
use crate::reading::read;
use crate::{Batch, Lookup, TableLookup};

/// How many batches a worker leases at a time.
const LEASE: u64 = 8;
/// How many batches are prepared ahead: values are as old as that when they are used.
const AHEAD: usize = 1;

/// A batch with everything that a step needs.
pub(super) struct Prepared {
    pub(super) id: BatchId,
    /// With how many of its records are damaged or mean nothing, and left out.
    pub(super) held: wire::Held,
    pub(super) batch: Batch,
    pub(super) lookup: Lookup,
    pub(super) variables: Vec<Vec<f32>>,
    pub(super) rows: Vec<Vec<f32>>,
    /// Of which versions the values are, where that matters.
    pub(super) versions: Versions,
    /// The map by which all servers had last gone back when it was leased.
    pub(super) rewind_epoch: u64,
}

/// What records are read with.
pub(super) struct Reading {
    pub(super) dataset: Arc<Dataset>,
    pub(super) features: Features,
    /// Says which rows a batch needs.
    pub(super) looker: Box<dyn Model>,
    pub(super) batch: Batch,
    /// Records of a batch; the last one of an epoch may be smaller.
    pub(super) size: u32,
    pub(super) steps: Option<Steps>,
    /// Versions of values are asked for.
    pub(super) by_version: bool,
}

/// Who prepares batches.
pub(super) struct Preparing {
    pub(super) reading: Reading,
    pub(super) client: Client,
    pub(super) ledger: Arc<Ledger>,
}

impl Preparing {
    /// Prepares batches until there are none any more, and can do so again then.
    pub(super) fn start(self) -> (mpsc::Receiver<Result<Prepared, TrainingError>>, JoinHandle<Self>) {
        let (prepared, receiver) = mpsc::channel(AHEAD);
        (receiver, tokio::spawn(self.run(prepared)))
    }

    async fn run(mut self, prepared: mpsc::Sender<Result<Prepared, TrainingError>>) -> Self {
        loop {
            // What is learnt together is computed by as many as there are.
            let batches = if self.reading.steps.is_some() { 1 } else { LEASE };
            let lease = match self.ledger.lease(DATASET, batches).await {
                Ok(Some(lease)) => lease,
                Ok(None) => return self,
                Err(error) => {
                    let _ = prepared.send(Err(error.into())).await;
                    return self;
                }
            };
            for batch in &lease.batches {
                let next = match self.reading.next(&mut self.client, &lease, batch).await {
                    Ok(Some(next)) => Ok(next),
                    Ok(None) => match self.ledger.give_back(held(&lease, batch)).await {
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

impl Reading {
    /// The batch, or nothing if its step does not come.
    async fn next(
        &mut self,
        client: &mut Client,
        lease: &wire::Lease,
        of: &wire::Batch,
    ) -> Result<Option<Prepared>, TrainingError> {
        let (dataset, features) = (self.dataset.clone(), &mut self.features);
        let batch = &mut self.batch;
        let range = of.first..of.first + of.count;
        let left_out = tokio::task::block_in_place(|| read(&dataset, features, range, batch))?.len() as u64;
        let mut lookup = Lookup::default();
        self.looker.look_up(&self.batch, &mut lookup);
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
            // The servers, and the data with them, may have gone back: the batch is not this worker's any more then.
            PullOutcome::StepVoid => {
                tracing::warn!(batch = of.number, step = of.step, "given back: its step is not taken on the servers");
                return Ok(None);
            }
        }
        let (variables, versions) = (client.variables(), client.versions().clone());
        let first = of.number * u64::from(self.size);
        let len = u32::try_from(of.count).unwrap_or(u32::MAX);
        let id = BatchId { dataset: lease.dataset, epoch: lease.epoch, first, len };
        let step = of.step.filter(|_| left_out > 0);
        let held = wire::Held { left_out, step, ..held(lease, of) };
        Ok(Some(Prepared {
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

fn held(lease: &wire::Lease, of: &wire::Batch) -> wire::Held {
    let lease = lease.held.unwrap_or_default().lease;
    wire::Held { lease, first: of.number, count: 1, ..wire::Held::default() }
}
