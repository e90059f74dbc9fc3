//! One partition of a model: the unit of placement, replication and recovery.
//!
//! It contains rows, dense slices, slots, step counts, the history of applied batches, gradients buffered for a
//! synchronous step, and the version, which counts updates. A partition applies its part of a push completely and once,
//! or rejects it. It has no lock and no clock: [`crate::hosted`] guards all partitions of a server.

mod assignment;
mod contribution;
mod export;
mod history;
mod import;
mod pull;
mod steps;
#[cfg(test)]
mod tests;
mod update;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

use contribution::Contribution;
pub use export::PartitionExport;
use history::BatchState;
pub(crate) use history::History;
pub use import::{ImportError, PartitionImport};
pub use pull::SliceView;
pub use steps::{BufferOutcome, CommitOutcome, Divisors};

use crate::batch::{BatchId, DatasetEpoch};
use crate::dense::Slice;
use crate::layout::{Layout, SliceId, TableId};
use crate::placement::PartitionId;
use crate::push::CheckedPush;
use crate::snapshot::{Budget, SnapshotId, Snapshots};
use crate::table::{RecordShape, Table};

#[derive(Debug)]
pub struct Partition {
    id: PartitionId,
    layout: Arc<Layout>,
    tables: Vec<Table>,
    /// Sorted by id.
    slices: Vec<(SliceId, Slice)>,
    history: History,
    /// The number of applied updates.
    version: u64,
    /// Synchronous mode: contributions that wait for the commit of their step.
    buffered: BTreeMap<BatchId, Arc<Contribution>>,
    snapshots: Snapshots,
    scratch: update::Scratch,
}

/// Per-partition options of a push.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushOptions {
    /// The version that the gradients were computed on. If given, the learning rate is divided by the number of updates
    /// since.
    pub based_on: Option<u64>,
}

/// The outcome of a partition's part of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartOutcome {
    Applied {
        version: u64,
    },
    /// The batch was applied earlier.
    AlreadyApplied {
        /// Of its update; in synchronous training the number of committed steps.
        version: Option<u64>,
    },
    /// The batch is in a closed range: its worker acknowledged it, so it was applied earlier.
    Closed,
}

/// The partition rejected its part of a push. The client may send it again, here or to another server.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PartitionError {
    #[error("partition {0} is not on this server; get the current partition map and send the request to the primary")]
    NotHere(PartitionId),
    /// An earlier step is missing here.
    #[error("partition {partition} is at version {version}, not at {asked}")]
    OutOfOrder {
        partition: PartitionId,
        version: u64,
        /// The number of the step: it needs a partition at this version.
        asked: u64,
    },
    #[error(
        "{batch} overlap another batch that partition {partition} has applied; push batches as the master cuts them"
    )]
    OverlapsApplied { partition: PartitionId, batch: BatchId },
    #[error("table {} of partition {partition} has reached the maximum number of rows", .table.0)]
    Full { partition: PartitionId, table: TableId },
}

impl PartitionError {
    pub fn partition(&self) -> PartitionId {
        match self {
            Self::NotHere(partition)
            | Self::OutOfOrder { partition, .. }
            | Self::OverlapsApplied { partition, .. }
            | Self::Full { partition, .. } => *partition,
        }
    }
}

impl Partition {
    /// An untrained partition.
    pub fn new(layout: &Arc<Layout>, id: PartitionId) -> Self {
        let mut partition = Self::empty(layout, id);
        partition.make_slices();
        partition
    }

    /// A partition without slices, to be filled by an import.
    fn empty(layout: &Arc<Layout>, id: PartitionId) -> Self {
        let mut partition = Self {
            id,
            layout: Arc::clone(layout),
            tables: Vec::new(),
            slices: Vec::new(),
            history: History::default(),
            version: 0,
            buffered: BTreeMap::new(),
            snapshots: Snapshots::default(),
            scratch: update::Scratch::default(),
        };
        partition.make_tables();
        partition
    }

    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The number of applied updates.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Adopts a model with appended variables and tables.
    pub fn extend(&mut self, layout: &Arc<Layout>) {
        if !Arc::ptr_eq(&self.layout, layout) && layout.spec().extends(self.layout.spec()) {
            self.layout = Arc::clone(layout);
            self.make_tables();
            self.make_slices();
        }
    }

    /// Closes a range of acknowledged records: their updates never come again, so the history need not list them one by
    /// one. BufferOutcome contributions stay: the commit of their step may come later.
    pub fn close(&mut self, epoch: DatasetEpoch, records: Range<u64>) {
        self.history.close(epoch, records);
    }

    /// Opens a snapshot of the current state. It can be read until it is closed.
    pub fn open_snapshot(&mut self, id: SnapshotId, budget: Arc<Budget>) {
        let rows = self.tables.iter().map(Table::rows).collect();
        self.snapshots.open(id, budget, rows, self.version);
    }

    pub fn close_snapshot(&mut self, id: SnapshotId) {
        self.snapshots.close(id);
    }

    /// The number of rows in all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| u64::from(table.rows())).sum()
    }

    /// The memory of rows, slices, indexes and slots.
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(Table::bytes).sum::<usize>()
            + self.slices.iter().map(|(_, slice)| slice.bytes()).sum::<usize>()
    }

    fn make_tables(&mut self) {
        let (slots, counts_steps) = (self.layout.kernel().slots(), self.layout.kernel().counts_steps());
        let new = self.layout.tables().iter().skip(self.tables.len());
        let made = new.map(|table| Table::new(table.name, RecordShape { dim: table.dim, slots, counts_steps }));
        self.tables.extend(made);
    }

    fn make_slices(&mut self) {
        let layout = Arc::clone(&self.layout);
        let known = self.slices.last().map(|(slice, _)| *slice);
        let is_own = |slice: &SliceId| layout.partition_of(*slice) == Some(self.id);
        for slice in layout.slices().filter(|slice| Some(*slice) > known).filter(is_own) {
            let elements = layout.elements(slice).map_or(0, |elements| elements.end - elements.start);
            let mut weights = vec![0.0; elements as usize];
            layout.initial_slice(slice, &mut weights);
            self.slices.push((slice, Slice::new(weights, layout.kernel().slots(), layout.kernel().initial_slot())));
        }
    }

    fn slice_index(&self, slice: SliceId) -> Option<usize> {
        self.slices.binary_search_by_key(&slice, |(slice, _)| *slice).ok()
    }

    /// Checks the history. `None` means that the batch is to be applied; `Some` is the outcome of a repeated batch.
    fn check_history(&self, batch: Option<BatchId>) -> Result<Option<PartOutcome>, PartitionError> {
        let Some(batch) = batch else { return Ok(None) };
        match self.history.state_of(batch) {
            BatchState::Open => Ok(None),
            BatchState::Applied => Ok(Some(PartOutcome::AlreadyApplied { version: self.history.version_of(batch) })),
            BatchState::Closed => Ok(Some(PartOutcome::Closed)),
            BatchState::Overlapping => Err(PartitionError::OverlapsApplied { partition: self.id, batch }),
        }
    }

    fn check_room(&self, push: &CheckedPush<'_>) -> Result<(), PartitionError> {
        let full = |rows: &&crate::push::CheckedRows<'_>| {
            let more = rows.of.buckets.positions(self.id).len();
            self.tables.get(rows.of.table.0 as usize).is_none_or(|table| !table.has_room(more))
        };
        match push.rows.iter().find(full) {
            None => Ok(()),
            Some(rows) => Err(PartitionError::Full { partition: self.id, table: rows.of.table }),
        }
    }
}
