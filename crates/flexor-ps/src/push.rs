//! What a client asks of a server: gradients to be applied, rows to be read.
//!
//! A [`Push`] is checked against the model as a whole before any partition sees it: a [`CheckedPush`] has the right
//! widths and lengths, names nothing that is not there, and is finite as far as that is asked. So a malformed push
//! changes nothing anywhere, and partitions need not look again.

mod answer;
mod check;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub(crate) use answer::AnswerSize;
pub use check::CheckedPush;
pub(crate) use check::Rows;

use crate::batch::BatchId;
use crate::buckets::Buckets;
use crate::layout::{SliceId, TableId};

/// Gradients of one batch.
#[derive(Debug, Clone, Copy)]
pub struct Push<'a> {
    /// Of which batch. Without one a repeated push is applied again; foreign wires know no batches.
    pub batch: Option<BatchId>,
    /// The learning rate to be used; 0 for the configured one.
    pub learning_rate: f32,
    /// Gradients of rows. A key that is named more than once counts once, with the sum of its gradients.
    pub rows: &'a [RowGradients<'a>],
    /// Gradients of dense slices. Where those of a slice overlap they are added.
    pub slices: &'a [SliceGradient<'a>],
    /// What to do about NaN and infinity.
    pub non_finite: NonFinite,
}

/// Gradients of some rows of a table.
#[derive(Debug, Clone, Copy)]
pub struct RowGradients<'a> {
    /// The table.
    pub table: TableId,
    /// Whose rows.
    pub keys: &'a [u64],
    /// The buckets of just these keys.
    pub buckets: &'a Buckets,
    /// A row of gradients for each key, one behind the other.
    pub gradients: &'a [f32],
}

/// The gradient of a dense slice, or of a part of it: rows of a dense variable that a batch did not touch take no step.
#[derive(Debug, Clone, Copy)]
pub struct SliceGradient<'a> {
    /// The slice.
    pub slice: SliceId,
    /// The first element inside of the slice.
    pub offset: u32,
    /// A gradient for each element from there on.
    pub gradient: &'a [f32],
}

/// Rows that a client wants to read.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The table.
    pub table: TableId,
    /// Whose rows.
    pub keys: &'a [u64],
    /// The buckets of just these keys.
    pub buckets: &'a Buckets,
}

/// What becomes of gradients that are not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// The push is refused.
    #[default]
    Refuse,
    /// Rows and slices with such gradients take no step and are counted; the others do.
    LeaveOut,
}

/// A push or pull that is wrong in itself: sending it again is of no use.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum BadRequest {
    /// A batch without records.
    #[error("a push of a batch without records; a batch has at least one")]
    EmptyBatch,
    /// A learning rate that is none.
    #[error("the learning rate of the push is {0}; it must be finite, and 0 means the configured one")]
    LearningRate(f32),
    /// No such table.
    #[error("the model has no table number {}; it has {tables}", .table.0)]
    UnknownTable {
        /// The table asked for.
        table: TableId,
        /// How many there are.
        tables: usize,
    },
    /// No such slice.
    #[error("the model has no {0}")]
    UnknownSlice(SliceId),
    /// Too few or too many values.
    #[error("table '{table}' has rows of {dim} values, so {keys} keys need {} and not {values}", .keys * .dim)]
    Width {
        /// The table.
        table: String,
        /// How wide its rows are.
        dim: usize,
        /// How many keys were given.
        keys: usize,
        /// How many values came with them.
        values: usize,
    },
    /// The buckets are those of other keys.
    #[error("table '{table}': {keys} keys, but sorted by partition are {sorted}")]
    Buckets {
        /// The table.
        table: String,
        /// How many keys were given.
        keys: usize,
        /// How many were sorted.
        sorted: usize,
    },
    /// A gradient that reaches beyond its slice, or has no elements.
    #[error("{slice} of '{variable}' has {len} elements; a gradient of {given} from element {offset} does not fit")]
    SliceRange {
        /// The slice.
        slice: SliceId,
        /// The variable's name.
        variable: String,
        /// How many elements it has.
        len: u64,
        /// Where the gradient begins.
        offset: u32,
        /// How many elements it has.
        given: usize,
    },
    /// More than can be answered at once.
    #[error(
        "the answer to the pull would have {bytes} bytes, and a message has at most {at_most}; pull fewer rows at a time"
    )]
    TooMuch {
        /// How long the answer would be.
        bytes: u64,
        /// How long it may be.
        at_most: usize,
    },
    /// NaN or infinity.
    #[error(
        "the gradient of '{name}' is not finite ({what}); lower the learning rate, or let such gradients be left out and counted"
    )]
    NotFinite {
        /// The table or variable.
        name: String,
        /// Where.
        what: String,
    },
}
