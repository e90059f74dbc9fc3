//! A dataset as a program registers it: its records, their batches, the number of epochs and the order.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::order::Order;
use super::ranges::Batches;
use super::steps::StepSpec;

const MAX_NAME: usize = 256;
/// The most records of a batch. A lease lists each of them when records are shuffled one by one.
const MAX_BATCH: u64 = 1 << 18;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatasetSpec {
    /// Unique in the job.
    pub name: Arc<str>,
    pub records: u64,
    /// Records per batch; the last batch of an epoch may be smaller.
    pub batch: NonZeroU64,
    /// `None` means without end.
    pub epochs: Option<u32>,
    pub order: Order,
    /// Set for synchronous training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<StepSpec>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DatasetError {
    #[error("a dataset's name must have 1 to {MAX_NAME} bytes")]
    Name,
    #[error("a batch must have 1 to {MAX_BATCH} records, not {0}")]
    Batch(u64),
}

impl DatasetSpec {
    /// A dataset of one epoch, in sequential order.
    pub fn new(name: impl Into<Arc<str>>, records: u64, batch: u64) -> Result<Self, DatasetError> {
        let name = name.into();
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(DatasetError::Name);
        }
        let batch =
            NonZeroU64::new(batch).filter(|batch| batch.get() <= MAX_BATCH).ok_or(DatasetError::Batch(batch))?;
        Ok(Self { name, records, batch, epochs: Some(1), order: Order::Sequential, steps: None })
    }

    pub fn with_epochs(self, epochs: Option<u32>) -> Self {
        Self { epochs, ..self }
    }

    pub fn with_order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// FNV-1a of the name: a stable number by which parameter servers know the dataset's batches.
    pub fn number(&self) -> u32 {
        self.name.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    /// The spec in words, for messages.
    pub(super) fn describe(&self) -> String {
        let Self { records, batch, .. } = self;
        let order = match self.order {
            Order::Sequential => "in order".to_owned(),
            Order::ShuffledBatches { seed } => format!("batches shuffled with seed {seed}"),
            Order::ShuffledRecords { seed } => format!("records shuffled with seed {seed}"),
        };
        let epochs = match self.epochs {
            None => "no end".to_owned(),
            Some(1) => "1 epoch".to_owned(),
            Some(epochs) => format!("{epochs} epochs"),
        };
        let steps = self.steps.map(|steps| format!(", {} to a step", steps.batches)).unwrap_or_default();
        format!("{records} records, batches of {batch}{steps}, {epochs}, {order}")
    }

    pub fn batches(&self) -> u64 {
        self.records.div_ceil(self.batch.get())
    }

    pub fn batch_length(&self, batch: u64) -> u64 {
        self.records_in(Batches::new(batch, 1))
    }

    pub fn records_in(&self, batches: Batches) -> u64 {
        let offset = |batch: u64| batch.saturating_mul(self.batch.get()).min(self.records);
        offset(batches.end()) - offset(batches.first)
    }

    /// Whether the epoch with this number, from 0, exists.
    pub fn has_epoch(&self, epoch: u32) -> bool {
        self.records > 0 && self.epochs.is_none_or(|epochs| epoch < epochs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_batch_has_the_remaining_records() {
        let spec = DatasetSpec::new("d", 25, 10).unwrap();
        assert_eq!(spec.batches(), 3);
        assert_eq!([0, 1, 2, 3].map(|batch| spec.batch_length(batch)), [10, 10, 5, 0]);
        assert_eq!(spec.records_in(Batches::new(1, 2)), 15);
        assert_eq!(spec.records_in(Batches::new(1, u64::MAX)), 15);
    }

    #[test]
    fn an_empty_dataset_has_no_epoch_and_an_invalid_one_is_refused() {
        let spec = DatasetSpec::new("d", 0, 10).unwrap().with_epochs(None);
        assert_eq!((spec.batches(), spec.has_epoch(0)), (0, false));
        assert_eq!(DatasetSpec::new("", 1, 1), Err(DatasetError::Name));
        assert_eq!(DatasetSpec::new("d", 1, 0), Err(DatasetError::Batch(0)));
    }
}
