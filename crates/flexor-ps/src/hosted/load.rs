//! The load of a server, for load reports and scaling decisions.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::partition::Partition;
use crate::push::CheckedPush;

/// Sizes and counters of a server. Counters only grow; rates are differences of two reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub partitions: u32,
    pub rows: u64,
    /// Memory of the hosted partitions.
    pub bytes: u64,
    /// Contributions buffered for a synchronous step.
    pub waiting: u64,
    /// Answered pulls.
    pub pulls: u64,
    pub rows_pulled: u64,
    pub pushes: u64,
    pub rows_pushed: u64,
    /// Rows and slices skipped because their gradients were not finite.
    pub skipped: u64,
}

impl Load {
    pub(super) fn add(&mut self, partition: &Partition) {
        self.partitions += 1;
        self.rows += partition.rows();
        self.bytes += partition.bytes() as u64;
        self.waiting += partition.waiting().count() as u64;
    }
}

/// Counters since the start of the server.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pulls: AtomicU64,
    rows_pulled: AtomicU64,
    pushes: AtomicU64,
    rows_pushed: AtomicU64,
    skipped: AtomicU64,
}

impl Counters {
    pub(super) fn pulled(&self, rows: usize) {
        count(&self.pulls, 1);
        count(&self.rows_pulled, rows as u64);
    }

    pub(super) fn pushed(&self, push: &CheckedPush<'_>) {
        count(&self.pushes, 1);
        count(&self.rows_pushed, push.row_count() as u64);
        count(&self.skipped, push.skipped());
    }

    pub(super) fn so_far(&self) -> Load {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Load {
            pulls: read(&self.pulls),
            rows_pulled: read(&self.rows_pulled),
            pushes: read(&self.pushes),
            rows_pushed: read(&self.rows_pushed),
            skipped: read(&self.skipped),
            ..Load::default()
        }
    }
}

fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
