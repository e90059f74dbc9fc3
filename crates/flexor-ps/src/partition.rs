//! One partition of a model: everything that moves together when a partition changes its server.
//!
//! Rows, dense slices, their slots and step counts, which batches were applied, what waits for a synchronous step, and
//! the version that counts updates. A partition decides by itself whether a part of a push is applied: whole, once, or
//! not at all. It has no lock and no clock; [`crate::hosted`] guards all partitions of a server.

mod applying;
mod arriving;
mod assigning;
mod contribution;
mod copying;
mod history;
mod reading;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

pub use arriving::{ArrivalError, Arriving};
use contribution::Contribution;
pub use copying::PartitionCopy;
pub(crate) use history::History;
use history::Standing;
pub use reading::SliceView;
pub use steps::{Buffered, Committed, Divisors};

use crate::batch::{BatchId, Pass};
use crate::dense::Slice;
use crate::layout::{Layout, SliceId, TableId};
use crate::placement::PartitionId;
use crate::push::CheckedPush;
use crate::snapshot::{Budget, SnapshotId, Snapshots};
use crate::table::{RecordShape, Table};

/// A partition and all that belongs to it.
#[derive(Debug)]
pub struct Partition {
    id: PartitionId,
    layout: Arc<Layout>,
    tables: Vec<Table>,
    /// By their id, sorted.
    slices: Vec<(SliceId, Slice)>,
    history: History,
    /// How many updates were applied.
    version: u64,
    /// What waits for the commit of its step, in synchronous mode.
    buffered: BTreeMap<BatchId, Arc<Contribution>>,
    snapshots: Snapshots,
    scratch: applying::Scratch,
}

/// What a push must fit to be applied to one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terms {
    /// The version that the gradients were computed on, where stale ones shall count less: the learning rate is divided
    /// by the number of updates since.
    pub based_on: Option<u64>,
}

/// What became of a part of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It was applied.
    Applied {
        /// The version after it.
        version: u64,
    },
    /// The batch was applied here before.
    AlreadyApplied {
        /// The version as it is.
        version: u64,
    },
    /// The batch was acknowledged by its worker long ago, so it was applied here before.
    Closed,
}

/// Why a part was not taken. It may be sent again, here or elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Turned {
    /// The partition is not on this server.
    #[error("partition {0} is not on this server; ask for the map and send it to its owner")]
    Elsewhere(PartitionId),
    /// Steps before this one were not taken.
    #[error("partition {partition} is at version {version}, not at {asked}")]
    OutOfOrder {
        /// The partition.
        partition: PartitionId,
        /// Where it is.
        version: u64,
        /// What the step follows.
        asked: u64,
    },
    /// Some records of the batch were applied as another batch.
    #[error(
        "{batch} overlap a batch that partition {partition} has applied; batches must be cut as the master cuts them"
    )]
    CutElsewhere {
        /// The partition.
        partition: PartitionId,
        /// The batch.
        batch: BatchId,
    },
    /// As many rows as can be numbered.
    #[error("table {} of partition {partition} has as many rows as it can have", .table.0)]
    Full {
        /// The partition.
        partition: PartitionId,
        /// The table.
        table: TableId,
    },
}

impl Turned {
    /// The partition it is about.
    pub fn partition(&self) -> PartitionId {
        match self {
            Self::Elsewhere(partition)
            | Self::OutOfOrder { partition, .. }
            | Self::CutElsewhere { partition, .. }
            | Self::Full { partition, .. } => *partition,
        }
    }
}

impl Partition {
    /// A partition of a model that nobody has trained.
    pub fn new(layout: &Arc<Layout>, id: PartitionId) -> Self {
        let mut partition = Self::empty(layout, id);
        partition.make_slices();
        partition
    }

    /// Without its slices.
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
            scratch: applying::Scratch::default(),
        };
        partition.make_tables();
        partition
    }

    /// Its number.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// How many updates were applied.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Takes over a model that has more variables and tables than the one it was made for.
    pub fn extend(&mut self, layout: &Arc<Layout>) {
        if !Arc::ptr_eq(&self.layout, layout) && layout.spec().extends(self.layout.spec()) {
            self.layout = Arc::clone(layout);
            self.make_tables();
            self.make_slices();
        }
    }

    /// Records of a pass were acknowledged: their updates never come again, and need not be remembered one by one. What
    /// waits for a step stays: the step may be told later than this.
    pub fn close(&mut self, pass: Pass, records: Range<u64>) {
        self.history.close(pass, records);
    }

    /// Opens a snapshot: the partition as it is at this moment can be read until it is closed.
    pub fn open_snapshot(&mut self, id: SnapshotId, budget: Arc<Budget>) {
        let rows = self.tables.iter().map(Table::rows).collect();
        self.snapshots.open(id, budget, rows, self.version);
    }

    /// Forgets a snapshot.
    pub fn close_snapshot(&mut self, id: SnapshotId) {
        self.snapshots.close(id);
    }

    /// How many rows there are, in all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| u64::from(table.rows())).sum()
    }

    /// How many bytes of memory rows, slices, indexes and slots take.
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
        let of_here = |slice: &SliceId| layout.partition_of(*slice) == Some(self.id);
        for slice in layout.slices().filter(|slice| Some(*slice) > known).filter(of_here) {
            let elements = layout.elements(slice).map_or(0, |elements| elements.end - elements.start);
            let mut weights = vec![0.0; elements as usize];
            layout.initial_slice(slice, &mut weights);
            self.slices.push((slice, Slice::new(weights, layout.kernel().slots(), layout.kernel().initial_slot())));
        }
    }

    fn place_of(&self, slice: SliceId) -> Option<usize> {
        self.slices.binary_search_by_key(&slice, |(slice, _)| *slice).ok()
    }

    /// Whether an update of this batch may be applied; `Some` if it was, or need not be.
    fn standing(&self, batch: Option<BatchId>) -> Result<Option<Pushed>, Turned> {
        let Some(batch) = batch else { return Ok(None) };
        match self.history.standing(batch) {
            Standing::Open => Ok(None),
            Standing::Applied => Ok(Some(Pushed::AlreadyApplied { version: self.version })),
            Standing::Closed => Ok(Some(Pushed::Closed)),
            Standing::CutElsewhere => Err(Turned::CutElsewhere { partition: self.id, batch }),
        }
    }

    fn check_room(&self, push: &CheckedPush<'_>) -> Result<(), Turned> {
        let full = |rows: &&crate::push::Rows<'_>| {
            let more = rows.of.buckets.positions(self.id).len();
            self.tables.get(rows.of.table.0 as usize).is_none_or(|table| !table.has_room(more))
        };
        match push.rows.iter().find(full) {
            None => Ok(()),
            Some(rows) => Err(Turned::Full { partition: self.id, table: rows.of.table }),
        }
    }
}
