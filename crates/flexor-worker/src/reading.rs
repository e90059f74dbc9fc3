//! Records of a dataset as a batch.

use std::ops::Range;

use flexor_data::{Content, DataError, Dataset, OnDamage};
use thiserror::Error;

use crate::Batch;
use crate::features::{BadRecord, Features};

/// Records that cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A record means nothing.
    #[error(transparent)]
    Record(#[from] BadRecord),
}

/// Reads records into a batch. Those that lie in a damaged part of a file, and those that mean nothing, are left out where
/// that is not an error; how many they are. Where no record at all means anything, the schema is wrong and not the data.
pub(crate) fn read(
    dataset: &Dataset,
    features: &mut Features,
    range: Range<u64>,
    batch: &mut Batch,
) -> Result<u64, ReadError> {
    batch.clear();
    let mut bad: Vec<BadRecord> = Vec::new();
    let read = dataset.read(range, &mut |record| {
        if let Content::Whole(bytes) = record.content {
            bad.extend(features.add(record.number, bytes, batch).err());
        }
    })?;
    let count = bad.len() as u64;
    let is_none_good = count > 1 && batch.is_empty();
    match bad.into_iter().next() {
        Some(first) if dataset.on_damage() == OnDamage::Fail || is_none_good => return Err(first.into()),
        Some(first) => tracing::warn!(records = count, %first, "left out"),
        None => {}
    }
    Ok(read.damaged + count)
}
