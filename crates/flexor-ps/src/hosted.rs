//! All partitions of one server, each behind a lock of its own.
//!
//! A request is checked against the model, sorted by partition, and takes each lock once. Partitions come and go while
//! requests run; a part that finds its partition gone is told so, and only that part is sent again. There are
//! no sockets here: the service around this decides who may ask.

mod load;
mod reading;
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
pub use reading::{DenseAnswer, KnownSlice, PullError, Reading};

use crate::batch::{BatchId, Pass};
use crate::checkpoint::Acquaintance;
use crate::layout::Layout;
use crate::partition::{Buffered, Committed, Divisors, Partition, Pushed, Terms, Turned};
use crate::placement::PartitionId;
use crate::push::{BadRequest, CheckedPush, Push};
use crate::snapshot::{Budget, SnapshotId};
use crate::spec::{ModelSpec, SpecError};

/// The partitions of one server.
#[derive(Debug)]
pub struct Hosted {
    layout: RwLock<Arc<Layout>>,
    partitions: Vec<Mutex<Option<Partition>>>,
    counters: Counters,
    snapshots: Mutex<BTreeMap<SnapshotId, Arc<Budget>>>,
    last_snapshot: AtomicU64,
    /// What this server knows of the folder for checkpoints.
    acquaintance: Mutex<Acquaintance>,
}

/// A model that cannot take the place of the one that is there.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum DeclareError {
    /// It cannot be at all.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// It is another model.
    #[error("the server holds another model; a declaration may only add variables and tables behind those it has")]
    OtherModel,
}

/// An answer for one partition.
pub type Answer<T> = (PartitionId, Result<T, Turned>);

impl Hosted {
    /// A server that holds nothing yet.
    pub fn new(layout: Arc<Layout>) -> Self {
        Self {
            layout: RwLock::new(layout),
            partitions: PartitionId::all().map(|_| Mutex::new(None)).collect(),
            counters: Counters::default(),
            snapshots: Mutex::new(BTreeMap::new()),
            last_snapshot: AtomicU64::new(0),
            acquaintance: Mutex::default(),
        }
    }

    /// Does something with what this server knows of the folder for checkpoints.
    pub(crate) fn with_acquaintance<T>(&self, work: impl FnOnce(&mut Acquaintance) -> T) -> T {
        work(&mut self.acquaintance.lock())
    }

    /// The model.
    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout.read())
    }

    /// Adds variables and tables to the model.
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

    /// Makes partitions that nobody has trained. Those that are here stay as they are.
    pub fn make(&self, partitions: impl IntoIterator<Item = PartitionId>) {
        let layout = self.layout();
        for id in partitions {
            self.partitions[id.index()].lock().get_or_insert_with(|| Partition::new(&layout, id));
        }
    }

    /// Puts a partition in place that has come from elsewhere; gives the one that was there.
    pub fn install(&self, mut partition: Partition) -> Option<Partition> {
        partition.extend(&self.layout());
        self.partitions[partition.id().index()].lock().replace(partition)
    }

    /// Takes a partition away.
    pub fn remove(&self, id: PartitionId) -> Option<Partition> {
        self.partitions[id.index()].lock().take()
    }

    /// The partitions that are here, in order.
    pub fn owned(&self) -> Vec<PartitionId> {
        PartitionId::all().filter(|id| self.partitions[id.index()].lock().is_some()).collect()
    }

    /// Whether a partition is here.
    pub fn holds(&self, id: PartitionId) -> bool {
        self.partitions[id.index()].lock().is_some()
    }

    /// Does something with a partition, under its lock.
    pub fn with<T>(&self, id: PartitionId, work: impl FnOnce(&mut Partition) -> T) -> Result<T, Turned> {
        match self.partitions[id.index()].lock().as_mut() {
            Some(partition) => Ok(work(partition)),
            None => Err(Turned::Elsewhere(id)),
        }
    }

    /// Checks a push against the model. One that is wrong changes nothing.
    pub fn check<'a>(&self, push: &Push<'a>) -> Result<CheckedPush<'a>, BadRequest> {
        CheckedPush::new(&self.layout(), push)
    }

    /// Counts a push whose parts are applied one by one by whoever has checked it.
    pub(crate) fn count(&self, push: &CheckedPush<'_>) {
        self.counters.pushed(push);
    }

    /// Counts a pull that was answered, with so many rows. For who answers it: one pull may read several tables, or none.
    pub(crate) fn count_pull(&self, rows: usize) {
        self.counters.pulled(rows);
    }

    /// Applies a push, each partition's part whole or not at all; says for each what became of it.
    pub fn push(&self, push: &CheckedPush<'_>, terms: impl Fn(PartitionId) -> Terms) -> Vec<Answer<Pushed>> {
        self.counters.pushed(push);
        let one = |id| (id, self.with(id, |partition| partition.push(push, terms(id))).flatten());
        push.partitions().map(one).collect()
    }

    /// Keeps the parts of a push for a synchronous step.
    pub fn buffer(&self, batch: BatchId, push: &CheckedPush<'_>) -> Vec<Answer<Buffered>> {
        self.counters.pushed(push);
        let one = |id| (id, self.with(id, |partition| partition.buffer(batch, push)).flatten());
        push.partitions().map(one).collect()
    }

    /// Commits a synchronous step on all partitions that are here.
    pub fn commit(
        &self,
        step: u64,
        batches: &[BatchId],
        divisors: Divisors,
        learning_rate: f32,
    ) -> Vec<Answer<Committed>> {
        let commit = |partition: &mut Partition| partition.commit(step, batches, divisors, learning_rate);
        self.owned().into_iter().map(|id| (id, self.with(id, commit).flatten())).collect()
    }

    /// Records of passes were acknowledged: their updates never come again. All of them together, because each partition is
    /// locked for it once.
    pub fn close(&self, closed: &[(Pass, Range<u64>)]) {
        self.each(|partition| closed.iter().for_each(|(pass, records)| partition.close(*pass, records.clone())));
    }

    /// Opens a snapshot of partitions, with so many bytes for what training changes meanwhile. Each partition is taken at
    /// one moment, one after the other; those that are not here are not in it.
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

    /// How many snapshots are open.
    pub fn open_snapshots(&self) -> usize {
        self.snapshots.lock().len()
    }

    /// Forgets a snapshot.
    pub fn close_snapshot(&self, id: SnapshotId) {
        self.snapshots.lock().remove(&id);
        self.each(|partition| partition.close_snapshot(id));
    }

    /// A number for a snapshot or copy that nobody else has.
    pub fn next_snapshot(&self) -> SnapshotId {
        SnapshotId(self.last_snapshot.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// How many pulls and pushes there were so far.
    pub(crate) fn answered(&self) -> u64 {
        let so_far = self.counters.so_far();
        so_far.pulls + so_far.pushes
    }

    /// What the server holds and has done.
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
