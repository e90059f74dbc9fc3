//! Decodes pushes and pulls from the wire. Nothing in them is trusted.

use std::collections::BTreeMap;

use flexor_wire::ps::v1 as wire;
use thiserror::Error;

use super::sequence::PartitionGeneration;
use crate::batch::BatchId;
use crate::buckets::Buckets;
use crate::layout::{Layout, SliceId, TableId};
use crate::partition::PartitionError;
use crate::placement::PartitionId;
use crate::push::{BadRequest, NonFinite, Push, RowGradients, RowKeys, SliceGradient};

/// A malformed or refused request.
#[derive(Debug, Error)]
pub(super) enum DecodeError {
    #[error("{0} bytes are no list of numbers of {1} bytes")]
    Ragged(usize, usize),
    #[error("a slice is missing")]
    NoSlice,
    #[error(transparent)]
    Bad(#[from] BadRequest),
    #[error(transparent)]
    Partition(PartitionError),
}

/// Keys of a table, sorted by partition.
pub(super) struct DecodedKeys {
    table: TableId,
    keys: Vec<u64>,
    buckets: Buckets,
}

impl DecodedKeys {
    pub(super) fn of(layout: &Layout, table: u32, keys: &[u8]) -> Result<Self, DecodeError> {
        let table = TableId(table);
        let tables = layout.spec().tables.len();
        let name = layout.name_hash(table).ok_or(BadRequest::UnknownTable { table, tables })?;
        let keys = numbers::<u64, 8>(keys, u64::from_le_bytes)?;
        let buckets = Buckets::of(name, &keys);
        Ok(Self { table, keys, buckets })
    }

    pub(super) fn row_keys(&self) -> RowKeys<'_> {
        RowKeys { table: self.table, keys: &self.keys, buckets: &self.buckets }
    }
}

/// The partition versions that a push was computed from, as far as it names them.
#[derive(Default)]
pub(super) struct BasedOn(BTreeMap<u32, (PartitionGeneration, u64)>);

impl BasedOn {
    pub(super) fn of(push: &wire::Push) -> Self {
        Self(push.based_on.iter().map(|of| (of.partition, (PartitionGeneration(of.generation), of.version))).collect())
    }

    /// The version of a partition in this generation. Versions of other generations do not compare.
    pub(super) fn version(&self, partition: PartitionId, generation: PartitionGeneration) -> Option<u64> {
        self.0.get(&partition.number()).filter(|(of, _)| *of == generation).map(|(_, version)| *version)
    }
}

/// A decoded push.
pub(super) struct DecodedPush {
    batch: Option<BatchId>,
    learning_rate: f32,
    rows: Vec<(DecodedKeys, Vec<f32>)>,
    slices: Vec<(SliceId, u32, Vec<f32>)>,
    non_finite: NonFinite,
}

impl DecodedPush {
    pub(super) fn of(layout: &Layout, push: &wire::Push) -> Result<Self, DecodeError> {
        let rows = push.rows.iter().map(|rows| {
            Ok((
                DecodedKeys::of(layout, rows.table, &rows.keys)?,
                numbers::<f32, 4>(&rows.gradients, f32::from_le_bytes)?,
            ))
        });
        let slices = push.slices.iter().map(|of| {
            let slice = slice_of(of.slice.as_ref().ok_or(DecodeError::NoSlice)?);
            Ok((slice, of.offset, numbers::<f32, 4>(&of.gradient, f32::from_le_bytes)?))
        });
        Ok(Self {
            batch: push.batch.as_ref().map(batch_of),
            learning_rate: push.learning_rate,
            rows: rows.collect::<Result<_, DecodeError>>()?,
            slices: slices.collect::<Result<_, DecodeError>>()?,
            non_finite: if push.skip_non_finite { NonFinite::Skip } else { NonFinite::Refuse },
        })
    }

    /// Approximate size in memory.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.rows.iter().map(|(of, gradients)| size_of_val(&*of.keys) + size_of_val(&**gradients));
        let slices = self.slices.iter().map(|(_, _, gradient)| size_of_val(&**gradient));
        rows.chain(slices).sum()
    }

    /// Calls `look` with a view of the push.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Push<'_>) -> T) -> T {
        let rows: Vec<RowGradients<'_>> = self
            .rows
            .iter()
            .map(|(of, gradients)| RowGradients { table: of.table, keys: &of.keys, buckets: &of.buckets, gradients })
            .collect();
        let slices: Vec<SliceGradient<'_>> = self
            .slices
            .iter()
            .map(|(slice, offset, gradient)| SliceGradient { slice: *slice, offset: *offset, gradient })
            .collect();
        look(&Push {
            batch: self.batch,
            learning_rate: self.learning_rate,
            rows: &rows,
            slices: &slices,
            non_finite: self.non_finite,
        })
    }

    /// The push reduced to these partitions, for a backup that keeps only them. `push` is the message that this was
    /// decoded from.
    pub(super) fn only(&self, layout: &Layout, push: &wire::Push, partitions: &[PartitionId]) -> wire::Push {
        let rows = self.rows.iter().zip(&push.rows).filter_map(|((of, _), rows)| {
            let width = rows.gradients.len().checked_div(of.keys.len())?;
            let positions =
                || partitions.iter().flat_map(|id| of.buckets.positions(*id)).map(|position| *position as usize);
            let count = positions().count();
            if count == of.keys.len() {
                return Some(rows.clone());
            }
            let (mut keys, mut gradients) = (Vec::with_capacity(count * 8), Vec::with_capacity(count * width));
            for position in positions() {
                keys.extend_from_slice(&rows.keys[position * 8..][..8]);
                gradients.extend_from_slice(&rows.gradients[position * width..][..width]);
            }
            (count > 0).then(|| wire::RowGradients {
                table: rows.table,
                keys: keys.into(),
                gradients: gradients.into(),
            })
        });
        let is_included = |slice: &SliceId| layout.partition_of(*slice).is_some_and(|id| partitions.contains(&id));
        let slices = self.slices.iter().zip(&push.slices).filter(|((slice, ..), _)| is_included(slice));
        let based_on = push.based_on.iter().filter(|of| partitions.iter().any(|id| id.number() == of.partition));
        wire::Push {
            batch: push.batch,
            rows: rows.collect(),
            slices: slices.map(|(_, slice)| slice.clone()).collect(),
            based_on: based_on.copied().collect(),
            ..*push
        }
    }
}

pub(super) fn batch_of(batch: &wire::Batch) -> BatchId {
    BatchId { dataset: batch.dataset, epoch: batch.epoch, first: batch.first, len: batch.records }
}

pub(super) fn slice_of(slice: &wire::Slice) -> SliceId {
    SliceId { variable: slice.variable, index: slice.index }
}

fn numbers<T, const SIZE: usize>(bytes: &[u8], read: fn([u8; SIZE]) -> T) -> Result<Vec<T>, DecodeError> {
    let (chunks, rest) = bytes.as_chunks::<SIZE>();
    if !rest.is_empty() {
        return Err(DecodeError::Ragged(bytes.len(), SIZE));
    }
    Ok(chunks.iter().map(|chunk| read(*chunk)).collect())
}
