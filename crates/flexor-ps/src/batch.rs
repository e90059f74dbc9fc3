//! Which update a push belongs to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A batch of records, as the job's master cuts them: a range that is leased again has the same batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BatchId {
    /// The dataset, by its number in the job.
    pub dataset: u32,
    /// Which time the dataset is gone through.
    pub epoch: u32,
    /// The position of its first record in the epoch's order.
    pub first: u64,
    /// How many records.
    pub len: u32,
}

impl BatchId {
    /// The dataset and epoch.
    pub fn pass(self) -> Pass {
        Pass { dataset: self.dataset, epoch: self.epoch }
    }

    /// The position behind its last record.
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

/// One time that a dataset is gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pass {
    /// The dataset, by its number in the job.
    pub dataset: u32,
    /// Which time it is gone through.
    pub epoch: u32,
}
