//! The requests of a client: gradients to apply, rows to read.
//!
//! A [`Push`] is validated against the model as a whole before any partition sees it. A [`CheckedPush`] has the right
//! widths and lengths, names only known tables and slices, and is finite where that is required. A malformed push
//! therefore changes no partition, and partitions do not validate again.

mod answer;
mod check;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub(crate) use answer::AnswerSize;
pub use check::CheckedPush;
pub(crate) use check::CheckedRows;

use crate::batch::BatchId;
use crate::buckets::Buckets;
use crate::layout::{SliceId, TableId};

/// Gradients of one batch.
#[derive(Debug, Clone, Copy)]
pub struct Push<'a> {
    /// Without a batch a repeated push is applied again. ElasticDL's protocol has no batches.
    pub batch: Option<BatchId>,
    /// 0 selects the configured learning rate.
    pub learning_rate: f32,
    /// A key that occurs more than once takes one step with the sum of its gradients.
    pub rows: &'a [RowGradients<'a>],
    /// Overlapping gradients of a slice are added.
    pub slices: &'a [SliceGradient<'a>],
    pub non_finite: NonFinite,
}

/// Gradients of some rows of a table.
#[derive(Debug, Clone, Copy)]
pub struct RowGradients<'a> {
    pub table: TableId,
    pub keys: &'a [u64],
    /// The buckets of exactly these keys.
    pub buckets: &'a Buckets,
    /// One row of gradients per key, concatenated.
    pub gradients: &'a [f32],
}

/// The gradient of a dense slice or of a part of it. Rows of a dense variable that a batch did not touch take no step.
#[derive(Debug, Clone, Copy)]
pub struct SliceGradient<'a> {
    pub slice: SliceId,
    /// The first element, relative to the slice.
    pub offset: u32,
    pub gradient: &'a [f32],
}

/// Keys of a table with their buckets: the rows that a client reads or assigns.
#[derive(Debug, Clone, Copy)]
pub struct RowKeys<'a> {
    pub table: TableId,
    pub keys: &'a [u64],
    /// The buckets of exactly these keys.
    pub buckets: &'a Buckets,
}

/// The treatment of gradients with NaN or infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NonFinite {
    #[default]
    Refuse,
    /// Rows and slices with such gradients are skipped and counted; the others are applied.
    Skip,
}

/// An invalid push or pull. Sending it again cannot succeed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum BadRequest {
    #[error("a push of a batch without records; a batch has at least one")]
    EmptyBatch,
    #[error("the learning rate of the push is {0}; it must be finite, and 0 means the configured one")]
    LearningRate(f32),
    #[error("the model has no table number {}; it has {tables}", .table.0)]
    UnknownTable { table: TableId, tables: usize },
    #[error("the model has no {0}")]
    UnknownSlice(SliceId),
    #[error("table '{table}' has rows of {dim} values, so {keys} keys need {} and not {values}", .keys * .dim)]
    Width { table: String, dim: usize, keys: usize, values: usize },
    #[error("table '{table}' has {keys} keys in the request, but {sorted} in its buckets")]
    Buckets { table: String, keys: usize, sorted: usize },
    #[error("{slice} of '{variable}' has {len} elements; a gradient of {given} from element {offset} does not fit")]
    SliceRange { slice: SliceId, variable: String, len: u64, offset: u32, given: usize },
    #[error(
        "the answer to the pull would have {bytes} bytes, and a message has at most {at_most}; pull fewer rows at a time"
    )]
    TooMuch { bytes: u64, at_most: usize },
    #[error(
        "the gradient of '{name}' is not finite ({what}); lower the learning rate, or choose to skip such gradients"
    )]
    NotFinite { name: String, what: String },
}
