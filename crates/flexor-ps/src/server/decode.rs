//! Pushes and pulls as they came over the wire, made ready to be looked at. Nothing is trusted.

use std::collections::BTreeMap;

use flexor_wire::ps::v1 as wire;
use thiserror::Error;

use super::numbers::Origin;
use crate::batch::BatchId;
use crate::buckets::Buckets;
use crate::layout::{Layout, SliceId, TableId};
use crate::partition::Turned;
use crate::placement::PartitionId;
use crate::push::{BadRequest, NonFinite, Push, RowGradients, SliceGradient, Wanted};

/// Something that is no pull and no push.
#[derive(Debug, Error)]
pub(super) enum DecodeError {
    #[error("{0} bytes are no list of numbers of {1} bytes")]
    Ragged(usize, usize),
    #[error("a slice is missing")]
    NoSlice,
    #[error(transparent)]
    Bad(#[from] BadRequest),
    #[error(transparent)]
    Turned(Turned),
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

    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted { table: self.table, keys: &self.keys, buckets: &self.buckets }
    }
}

/// With which versions of partitions a push was computed, as far as it says so.
#[derive(Default)]
pub(super) struct BasedOn(BTreeMap<u32, (Origin, u64)>);

impl BasedOn {
    pub(super) fn of(push: &wire::Push) -> Self {
        Self(push.based_on.iter().map(|of| (of.partition, (Origin(of.origin), of.version))).collect())
    }

    /// The version of a partition that has this beginning; what is said of another one tells nothing.
    pub(super) fn version(&self, partition: PartitionId, origin: Origin) -> Option<u64> {
        self.0.get(&partition.number()).filter(|(of, _)| *of == origin).map(|(_, version)| *version)
    }
}

/// A push.
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
            non_finite: if push.leave_out { NonFinite::LeaveOut } else { NonFinite::Refuse },
        })
    }

    /// How many bytes it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.rows.iter().map(|(of, gradients)| size_of_val(&*of.keys) + size_of_val(&**gradients));
        let slices = self.slices.iter().map(|(_, _, gradient)| size_of_val(&**gradient));
        rows.chain(slices).sum()
    }

    /// Gives the push to whoever looks at it.
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

    /// The same push with only what it has for these partitions, for who keeps copies of them alone. `push` is what this
    /// was made of.
    pub(super) fn only(&self, layout: &Layout, push: &wire::Push, partitions: &[PartitionId]) -> wire::Push {
        let rows = self.rows.iter().zip(&push.rows).filter_map(|((of, _), rows)| {
            let width = rows.gradients.len().checked_div(of.keys.len())?;
            let positions = || partitions.iter().flat_map(|id| of.buckets.positions(*id)).map(|place| *place as usize);
            let count = positions().count();
            if count == of.keys.len() {
                return Some(rows.clone());
            }
            let (mut keys, mut gradients) = (Vec::with_capacity(count * 8), Vec::with_capacity(count * width));
            for place in positions() {
                keys.extend_from_slice(&rows.keys[place * 8..][..8]);
                gradients.extend_from_slice(&rows.gradients[place * width..][..width]);
            }
            (count > 0).then(|| wire::RowGradients {
                table: rows.table,
                keys: keys.into(),
                gradients: gradients.into(),
            })
        });
        let is_theirs = |slice: &SliceId| layout.partition_of(*slice).is_some_and(|id| partitions.contains(&id));
        let slices = self.slices.iter().zip(&push.slices).filter(|((slice, ..), _)| is_theirs(slice));
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
