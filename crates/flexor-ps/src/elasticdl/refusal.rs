//! Why a call is refused. Nothing was changed by one that is.

use thiserror::Error;
use tonic::Status;

use super::tensor::TensorError;
use crate::hosted::{DeclareError, PullError};
use crate::partition::Turned;
use crate::push::BadRequest;
use crate::spec::InitializerError;

/// A call that is wrong in itself, or that the server has no room for.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Refusal {
    /// Bytes that are no tensor.
    #[error("the tensor of '{name}' cannot be: {why}")]
    Tensor {
        /// The variable or table.
        name: String,
        /// What is wrong.
        why: TensorError,
    },
    /// A tensor of another shape than what it is for.
    #[error("'{name}' has the shape {wanted:?}, but the tensor has {found:?}")]
    Shape {
        /// The variable.
        name: String,
        /// Its shape.
        wanted: Vec<u64>,
        /// That of the tensor.
        found: Vec<u64>,
    },
    /// Rows that are not those of the ids, or of another width.
    #[error(
        "'{name}': {ids} ids of rows with {width} values need the shape [{ids}, {width}], but the tensor has {found:?}"
    )]
    Rows {
        /// The variable or table.
        name: String,
        /// How many ids there are.
        ids: usize,
        /// How wide its rows are.
        width: u64,
        /// The shape of the tensor.
        found: Vec<u64>,
    },
    /// An id that is no row of a variable.
    #[error("'{name}' has {rows} rows, so there is no row {id}")]
    Row {
        /// The variable.
        name: String,
        /// How many rows it has.
        rows: u64,
        /// The id.
        id: i64,
    },
    /// A name that nobody has declared.
    #[error("this server has no variable or table '{0}'; push the model or the table's info first")]
    Unknown(String),
    /// A table that is there with another width.
    #[error("table '{name}' has rows of {width} values here, not of {asked}")]
    Width {
        /// The table.
        name: String,
        /// Its width.
        width: u32,
        /// The width asked for.
        asked: i64,
    },
    /// Initial values that nobody knows.
    #[error("table '{name}': {why}")]
    Initializer {
        /// The table.
        name: String,
        /// What is wrong.
        why: InitializerError,
    },
    /// A model that cannot be.
    #[error(transparent)]
    Declare(#[from] DeclareError),
    /// Gradients that cannot be applied.
    #[error(transparent)]
    Bad(#[from] BadRequest),
    /// Rows that cannot be read.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// No room for more rows.
    #[error(transparent)]
    Full(#[from] Turned),
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full(_) => Self::resource_exhausted(refusal.to_string()),
            Refusal::Tensor { .. }
            | Refusal::Shape { .. }
            | Refusal::Rows { .. }
            | Refusal::Row { .. }
            | Refusal::Unknown(_)
            | Refusal::Width { .. }
            | Refusal::Initializer { .. }
            | Refusal::Declare(_)
            | Refusal::Bad(_)
            | Refusal::Pull(_) => Self::invalid_argument(refusal.to_string()),
        }
    }
}
