//! The gradients of one batch, buffered until its synchronous step is committed.

use crate::layout::{SliceId, TableId};
use crate::placement::PartitionId;
use crate::push::{CheckedPush, SliceGradient};

/// The gradients of one batch in one partition.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Contribution {
    pub(crate) rows: Vec<RowPart>,
    pub(crate) slices: Vec<SlicePart>,
}

/// Gradients of rows of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowPart {
    pub(crate) table: TableId,
    pub(crate) keys: Vec<u64>,
    pub(crate) gradients: Vec<f32>,
}

/// The gradient of a slice, or of a part of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SlicePart {
    pub(crate) slice: SliceId,
    pub(crate) offset: u32,
    pub(crate) gradient: Vec<f32>,
}

impl Contribution {
    /// Copies a partition's part of a push.
    pub(super) fn of(push: &CheckedPush<'_>, partition: PartitionId) -> Self {
        let mut contribution = Self::default();
        for rows in &push.rows {
            let positions = rows.of.buckets.positions(partition);
            let positions = positions.iter().filter(|position| rows.skipped.binary_search(position).is_err());
            let mut part = RowPart { table: rows.of.table, keys: Vec::new(), gradients: Vec::new() };
            for position in positions.map(|position| *position as usize) {
                part.keys.push(rows.of.keys[position]);
                part.gradients.extend_from_slice(&rows.of.gradients[position * rows.dim..][..rows.dim]);
            }
            if !part.keys.is_empty() {
                contribution.rows.push(part);
            }
        }
        let slices = push.slices(partition).map(|SliceGradient { slice, offset, gradient }| SlicePart {
            slice,
            offset,
            gradient: gradient.to_vec(),
        });
        contribution.slices.extend(slices);
        contribution
    }
}

impl SlicePart {
    pub(super) fn as_gradient(&self) -> SliceGradient<'_> {
        SliceGradient { slice: self.slice, offset: self.offset, gradient: &self.gradient }
    }
}
