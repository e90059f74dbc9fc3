//! What a server holds and has done: for load reports and decisions about its size.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::partition::Partition;
use crate::push::CheckedPush;

/// A server's load. Counts only grow; rates are for who asks twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// How many partitions are here.
    pub partitions: u32,
    /// How many rows they have.
    pub rows: u64,
    /// How many bytes of memory the model takes here.
    pub bytes: u64,
    /// How many contributions wait for a synchronous step.
    pub waiting: u64,
    /// How many pulls were answered.
    pub pulls: u64,
    /// How many rows these asked for.
    pub rows_pulled: u64,
    /// How many pushes came.
    pub pushes: u64,
    /// How many rows these had gradients for.
    pub rows_pushed: u64,
    /// How many gradients were left out because they were not finite.
    pub left_out: u64,
}

impl Load {
    pub(super) fn add(&mut self, partition: &Partition) {
        self.partitions += 1;
        self.rows += partition.rows();
        self.bytes += partition.bytes() as u64;
        self.waiting += partition.waiting().count() as u64;
    }
}

/// What was counted since the server began.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pulls: AtomicU64,
    rows_pulled: AtomicU64,
    pushes: AtomicU64,
    rows_pushed: AtomicU64,
    left_out: AtomicU64,
}

impl Counters {
    pub(super) fn pulled(&self, rows: usize) {
        count(&self.pulls, 1);
        count(&self.rows_pulled, rows as u64);
    }

    pub(super) fn pushed(&self, push: &CheckedPush<'_>) {
        count(&self.pushes, 1);
        count(&self.rows_pushed, push.row_count() as u64);
        count(&self.left_out, push.left_out());
    }

    pub(super) fn so_far(&self) -> Load {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Load {
            pulls: read(&self.pulls),
            rows_pulled: read(&self.rows_pulled),
            pushes: read(&self.pushes),
            rows_pushed: read(&self.rows_pushed),
            left_out: read(&self.left_out),
            ..Load::default()
        }
    }
}

fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
