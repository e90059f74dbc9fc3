//! All partitions of one server, each behind its own lock.
//!
//! A request is validated against the model, grouped by partition, and takes each lock once. Partitions are added and
//! removed while requests run. If a partition is missing, only its part of the request fails, and the client sends that
//! part again to another server. This module has no sockets: the services around it authorise calls.

mod load;
mod pull;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use thiserror::Error;

use load::Counters;
pub use load::Load;
pub use pull::{DenseAnswer, PullError, ReadMode, SliceRequest};

use crate::batch::{BatchId, DatasetEpoch};
use crate::checkpoint::JobCheckpoints;
use crate::layout::Layout;
use crate::partition::{BufferOutcome, CommitOutcome, Divisors, PartOutcome, Partition, PartitionError, PushOptions};
use crate::placement::PartitionId;
use crate::push::{BadRequest, CheckedPush, Push};
use crate::snapshot::{Budget, SnapshotId};
use crate::spec::{ModelSpec, SpecError};

/// The partitions of one server.
#[derive(Debug)]
pub struct HostedPartitions {
    layout: RwLock<Arc<Layout>>,
    partitions: Vec<Mutex<Option<Partition>>>,
    counters: Counters,
    snapshots: Mutex<BTreeMap<SnapshotId, Arc<Budget>>>,
    last_snapshot: AtomicU64,
    job_checkpoints: Mutex<JobCheckpoints>,
}

/// The declared model is invalid or does not extend the current one.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum DeclareError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("the server holds another model; a declaration may only append variables and tables")]
    OtherModel,
}

/// The result of one partition's part of a request.
pub type PartitionResult<T> = (PartitionId, Result<T, PartitionError>);

impl HostedPartitions {
    /// A server without partitions.
    pub fn new(layout: Arc<Layout>) -> Self {
        Self {
            layout: RwLock::new(layout),
            partitions: PartitionId::all().map(|_| Mutex::new(None)).collect(),
            counters: Counters::default(),
            snapshots: Mutex::new(BTreeMap::new()),
            last_snapshot: AtomicU64::new(0),
            job_checkpoints: Mutex::default(),
        }
    }

    /// Runs `work` with the record of this job's checkpoints.
    pub(crate) fn with_job_checkpoints<T>(&self, work: impl FnOnce(&mut JobCheckpoints) -> T) -> T {
        work(&mut self.job_checkpoints.lock())
    }

    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout.read())
    }

    /// Appends variables and tables to the model.
    pub fn declare(&self, spec: ModelSpec) -> Result<Arc<Layout>, DeclareError> {
        let mut layout = self.layout.write();
        if !spec.extends(layout.spec()) {
            return Err(DeclareError::OtherModel);
        }
        if spec != *layout.spec() {
            *layout = Layout::new(spec)?;
        }
        Ok(Arc::clone(&layout))
    }

    /// Creates untrained partitions. Existing ones are not changed.
    pub fn make(&self, partitions: impl IntoIterator<Item = PartitionId>) {
        let layout = self.layout();
        for id in partitions {
            self.partitions[id.index()].lock().get_or_insert_with(|| Partition::new(&layout, id));
        }
    }

    /// Adds a partition that was imported or restored. Returns the one it replaces.
    pub fn install(&self, mut partition: Partition) -> Option<Partition> {
        partition.extend(&self.layout());
        self.partitions[partition.id().index()].lock().replace(partition)
    }

    pub fn remove(&self, id: PartitionId) -> Option<Partition> {
        self.partitions[id.index()].lock().take()
    }

    /// The hosted partitions, ascending.
    pub fn partition_ids(&self) -> Vec<PartitionId> {
        PartitionId::all().filter(|id| self.partitions[id.index()].lock().is_some()).collect()
    }

    pub fn holds(&self, id: PartitionId) -> bool {
        self.partitions[id.index()].lock().is_some()
    }

    /// Runs `work` on a partition under its lock.
    pub fn with<T>(&self, id: PartitionId, work: impl FnOnce(&mut Partition) -> T) -> Result<T, PartitionError> {
        match self.partitions[id.index()].lock().as_mut() {
            Some(partition) => Ok(work(partition)),
            None => Err(PartitionError::NotHere(id)),
        }
    }

    /// Validates a push against the model without changing any state.
    pub fn check<'a>(&self, push: &Push<'a>) -> Result<CheckedPush<'a>, BadRequest> {
        CheckedPush::new(&self.layout(), push)
    }

    /// Counts a push whose parts the caller applies one by one.
    pub(crate) fn count(&self, push: &CheckedPush<'_>) {
        self.counters.pushed(push);
    }

    /// Counts an answered pull. The caller counts, because one pull may read several tables or none.
    pub(crate) fn count_pull(&self, rows: usize) {
        self.counters.pulled(rows);
    }

    /// Applies a push. Each partition applies its part completely or not at all; the results are per partition.
    pub fn push(
        &self,
        push: &CheckedPush<'_>,
        terms: impl Fn(PartitionId) -> PushOptions,
    ) -> Vec<PartitionResult<PartOutcome>> {
        self.counters.pushed(push);
        let one = |id| (id, self.with(id, |partition| partition.push(push, terms(id))).flatten());
        push.partitions().map(one).collect()
    }

    /// Buffers a push for a synchronous step.
    pub fn buffer(&self, batch: BatchId, push: &CheckedPush<'_>) -> Vec<PartitionResult<BufferOutcome>> {
        self.counters.pushed(push);
        let one = |id| (id, self.with(id, |partition| partition.buffer(batch, push)).flatten());
        push.partitions().map(one).collect()
    }

    /// Commits a synchronous step on all hosted partitions.
    pub fn commit(
        &self,
        step: u64,
        batches: &[BatchId],
        divisors: Divisors,
        learning_rate: f32,
    ) -> Vec<PartitionResult<CommitOutcome>> {
        let commit = |partition: &mut Partition| partition.commit(step, batches, divisors, learning_rate);
        self.partition_ids().into_iter().map(|id| (id, self.with(id, commit).flatten())).collect()
    }

    /// Closes ranges of records that were acknowledged: their updates never come again. All ranges in one call, so that
    /// each partition is locked once.
    pub fn close(&self, closed: &[(DatasetEpoch, Range<u64>)]) {
        self.each(|partition| closed.iter().for_each(|(epoch, records)| partition.close(*epoch, records.clone())));
    }

    /// Opens a snapshot of partitions that may preserve `budget` bytes. Each partition is captured at its own moment,
    /// one after the other. Partitions that are not hosted here are omitted.
    pub fn open_snapshot(&self, partitions: impl IntoIterator<Item = PartitionId>, budget: usize) -> SnapshotId {
        let (id, budget) = (self.next_snapshot(), Budget::new(budget));
        self.snapshots.lock().insert(id, Arc::clone(&budget));
        for partition in partitions {
            if let Some(partition) = self.partitions[partition.index()].lock().as_mut() {
                partition.open_snapshot(id, Arc::clone(&budget));
            }
        }
        id
    }

    pub fn open_snapshots(&self) -> usize {
        self.snapshots.lock().len()
    }

    pub fn close_snapshot(&self, id: SnapshotId) {
        self.snapshots.lock().remove(&id);
        self.each(|partition| partition.close_snapshot(id));
    }

    /// A unique id for a snapshot or export.
    pub fn next_snapshot(&self) -> SnapshotId {
        SnapshotId(self.last_snapshot.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Pulls and pushes so far.
    pub(crate) fn answered(&self) -> u64 {
        let so_far = self.counters.so_far();
        so_far.pulls + so_far.pushes
    }

    pub fn load(&self) -> Load {
        let mut load = self.counters.so_far();
        self.each(|partition| load.add(partition));
        load
    }

    fn each(&self, mut work: impl FnMut(&mut Partition)) {
        self.partitions.iter().for_each(|partition| {
            if let Some(partition) = partition.lock().as_mut() {
                work(partition);
            }
        });
    }
}
