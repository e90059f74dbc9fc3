//! Records of a dataset as a batch.

use std::ops::Range;

use flexor_data::{Content, DataError, Dataset};
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

/// Reads records into a batch. Records that lie in a damaged part of a file are left out, where that is not an error; how
/// many they are.
pub(crate) fn read(
    dataset: &Dataset,
    features: &mut Features,
    range: Range<u64>,
    batch: &mut Batch,
) -> Result<u64, ReadError> {
    batch.clear();
    let mut bad = None;
    let read = dataset.read(range, &mut |record| {
        if let (Content::Whole(bytes), None) = (record.content, &bad) {
            bad = features.add(record.number, bytes, batch).err();
        }
    })?;
    bad.map_or(Ok(read.damaged), |bad| Err(bad.into()))
}
