//! Pulls from all partitions of a server.

use thiserror::Error;

use super::HostedPartitions;
use crate::layout::SliceId;
use crate::partition::PartitionError;
use crate::push::{BadRequest, RowKeys};
use crate::snapshot::{SnapshotId, SnapshotLost};

/// The purpose of a pull. It decides whether missing rows are created and which version is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// Training: missing rows are created.
    Train,
    /// Synchronous training: a partition below this version is treated as not hosted. A partition that has just moved
    /// here may be behind the others.
    Step(u64),
    /// Evaluation or prediction on the live model: missing rows have their initial values and are not created.
    Peek,
    /// Like `Peek`, on a snapshot.
    Snapshot(SnapshotId),
}

/// The pull failed as a whole.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PullError {
    #[error(transparent)]
    Bad(#[from] BadRequest),
    #[error(transparent)]
    Snapshot(#[from] SnapshotLost),
}

/// A requested slice and the version that the client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceRequest {
    pub slice: SliceId,
    pub known: Option<u64>,
}

/// The answer for one slice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DenseAnswer<'a> {
    /// The client's version is current.
    NotModified,
    /// The client has another version or none.
    Modified { version: u64, weights: &'a [f32] },
    /// The partition is not hosted here.
    NotHere,
}

impl HostedPartitions {
    /// Reads rows. `out` gets the rows of all keys, concatenated. Rows of partitions that are not hosted here are 0;
    /// the returned errors name these partitions.
    pub fn pull(
        &self,
        requested: RowKeys<'_>,
        reading: ReadMode,
        out: &mut Vec<f32>,
    ) -> Result<Vec<PartitionError>, PullError> {
        let layout = self.layout();
        let values = requested.check(&layout)?;
        out.clear();
        out.resize(values, 0.0);
        let mut turned = Vec::new();
        for id in requested.buckets.partitions() {
            let answer = self.with(id, |partition| match reading {
                ReadMode::Step(steps) if partition.version() < steps => Ok(Err(PartitionError::NotHere(id))),
                ReadMode::Train | ReadMode::Step(_) => Ok(partition.pull(&layout, requested, out)),
                ReadMode::Peek => {
                    partition.peek(&layout, requested, out);
                    Ok(Ok(()))
                }
                ReadMode::Snapshot(snapshot) => partition.peek_snapshot(snapshot, &layout, requested, out).map(Ok),
            });
            match answer {
                Ok(read) => turned.extend(read?.err()),
                Err(elsewhere) => turned.push(elsewhere),
            }
        }
        Ok(turned)
    }

    /// Reads dense slices. Calls `give` for each under the lock of its partition.
    pub fn pull_dense(
        &self,
        requested: &[SliceRequest],
        reading: ReadMode,
        mut give: impl FnMut(SliceId, DenseAnswer<'_>),
    ) -> Result<(), PullError> {
        let layout = self.layout();
        for SliceRequest { slice, known } in requested.iter().copied() {
            let id = layout.partition_of(slice).ok_or(BadRequest::UnknownSlice(slice))?;
            let answered = self.with(id, |partition| {
                partition.extend(&layout);
                let found = match reading {
                    ReadMode::Step(steps) if partition.version() < steps => None,
                    ReadMode::Train | ReadMode::Step(_) | ReadMode::Peek => partition.slice(slice),
                    ReadMode::Snapshot(snapshot) => partition.slice_of_snapshot(snapshot, slice)?,
                };
                match found {
                    Some(found) if known == Some(found.version) => give(slice, DenseAnswer::NotModified),
                    Some(found) => {
                        give(slice, DenseAnswer::Modified { version: found.version, weights: found.weights });
                    }
                    None => give(slice, DenseAnswer::NotHere),
                }
                Ok::<_, SnapshotLost>(())
            });
            match answered {
                Ok(answered) => answered?,
                Err(_) => give(slice, DenseAnswer::NotHere),
            }
        }
        Ok(())
    }
}
