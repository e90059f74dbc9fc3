//! The identity of a batch: partitions use it to apply each batch once.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A batch of records. The job's master cuts epochs into batches; a range that is leased again has the same batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BatchId {
    pub dataset: u32,
    /// Counted from 0.
    pub epoch: u32,
    /// The position of its first record in the epoch's order.
    pub first: u64,
    pub len: u32,
}

impl BatchId {
    pub fn dataset_epoch(self) -> DatasetEpoch {
        DatasetEpoch { dataset: self.dataset, epoch: self.epoch }
    }

    /// The position after its last record.
    pub fn end(self) -> u64 {
        self.first.saturating_add(self.len.into())
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dataset, epoch, first, len } = self;
        write!(f, "the {len} records from {first} of dataset {dataset} in epoch {epoch}")
    }
}

/// One epoch of one dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DatasetEpoch {
    pub dataset: u32,
    /// Counted from 0.
    pub epoch: u32,
}
