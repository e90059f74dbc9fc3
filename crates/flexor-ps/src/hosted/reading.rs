//! Pulls over all partitions of a server.

use thiserror::Error;

use super::Hosted;
use crate::layout::SliceId;
use crate::partition::Turned;
use crate::push::{BadRequest, Wanted};
use crate::snapshot::{SnapshotId, SnapshotLost};

/// What rows are read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Training: rows that are not there are made.
    Train,
    /// The same in steps: a partition that has not taken so many is not here yet. One that has just come may be behind those
    /// that were.
    Step(u64),
    /// Evaluation or prediction on the model as it moves: rows that are not there have their initial values.
    Peek,
    /// The same on a snapshot.
    Snapshot(SnapshotId),
}

/// A pull without an answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PullError {
    /// The pull is wrong in itself.
    #[error(transparent)]
    Bad(#[from] BadRequest),
    /// The snapshot cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotLost),
}

/// A slice that a client wants, and what it has of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownSlice {
    /// The slice.
    pub slice: SliceId,
    /// The version that the client has, if any.
    pub known: Option<u64>,
}

/// A slice, as far as it has to be sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DenseAnswer<'a> {
    /// The client has it.
    NotModified,
    /// The client has it not, or an older one.
    Modified {
        /// Its version.
        version: u64,
        /// Its elements.
        weights: &'a [f32],
    },
    /// Its partition is not here.
    Elsewhere,
}

impl Hosted {
    /// Reads rows. `out` gets the values of all keys, one row behind the other; those of partitions that are not here
    /// are 0, and the partitions are named.
    pub fn pull(&self, wanted: Wanted<'_>, reading: Reading, out: &mut Vec<f32>) -> Result<Vec<Turned>, PullError> {
        let layout = self.layout();
        let values = wanted.check(&layout)?;
        out.clear();
        out.resize(values, 0.0);
        let mut turned = Vec::new();
        for id in wanted.buckets.partitions() {
            let answer = self.with(id, |partition| match reading {
                Reading::Step(steps) if partition.version() < steps => Ok(Err(Turned::Elsewhere(id))),
                Reading::Train | Reading::Step(_) => Ok(partition.pull(&layout, wanted, out)),
                Reading::Peek => {
                    partition.peek(&layout, wanted, out);
                    Ok(Ok(()))
                }
                Reading::Snapshot(snapshot) => partition.peek_snapshot(snapshot, &layout, wanted, out).map(Ok),
            });
            match answer {
                Ok(read) => turned.extend(read?.err()),
                Err(elsewhere) => turned.push(elsewhere),
            }
        }
        Ok(turned)
    }

    /// Reads dense slices; `give` is called for each, under the lock of its partition.
    pub fn pull_dense(
        &self,
        wanted: &[KnownSlice],
        reading: Reading,
        mut give: impl FnMut(SliceId, DenseAnswer<'_>),
    ) -> Result<(), PullError> {
        let layout = self.layout();
        for KnownSlice { slice, known } in wanted.iter().copied() {
            let id = layout.partition_of(slice).ok_or(BadRequest::UnknownSlice(slice))?;
            let answered = self.with(id, |partition| {
                partition.extend(&layout);
                let found = match reading {
                    Reading::Step(steps) if partition.version() < steps => None,
                    Reading::Train | Reading::Step(_) | Reading::Peek => partition.slice(slice),
                    Reading::Snapshot(snapshot) => partition.slice_of_snapshot(snapshot, slice)?,
                };
                match found {
                    Some(found) if known == Some(found.version) => give(slice, DenseAnswer::NotModified),
                    Some(found) => {
                        give(slice, DenseAnswer::Modified { version: found.version, weights: found.weights });
                    }
                    None => give(slice, DenseAnswer::Elsewhere),
                }
                Ok::<_, SnapshotLost>(())
            });
            match answered {
                Ok(answered) => answered?,
                Err(_) => give(slice, DenseAnswer::Elsewhere),
            }
        }
        Ok(())
    }
}
