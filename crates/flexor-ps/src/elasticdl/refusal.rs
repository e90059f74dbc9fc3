//! Rejections of calls. A rejected call has changed nothing.

use thiserror::Error;
use tonic::Status;

use super::tensor::TensorError;
use crate::hosted::{DeclareError, PullError};
use crate::partition::PartitionError;
use crate::push::BadRequest;
use crate::spec::InitializerError;

/// The call is invalid, or the server has no room for it.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Refusal {
    #[error("the tensor of '{name}' is invalid: {why}")]
    Tensor { name: String, why: TensorError },
    #[error("'{name}' has the shape {wanted:?}, but the tensor has {found:?}")]
    Shape { name: String, wanted: Vec<u64>, found: Vec<u64> },
    #[error(
        "'{name}': {ids} ids of rows with {width} values need the shape [{ids}, {width}], but the tensor has {found:?}"
    )]
    Rows { name: String, ids: usize, width: u64, found: Vec<u64> },
    #[error("'{name}' has {rows} rows, so there is no row {id}")]
    Row { name: String, rows: u64, id: i64 },
    #[error("this server has no variable or table '{0}'; push the model or the table's info first")]
    Unknown(String),
    #[error("table '{name}' has rows of {width} values here, not of {asked}")]
    Width { name: String, width: u32, asked: i64 },
    #[error("table '{name}': {why}")]
    Initializer { name: String, why: InitializerError },
    #[error(transparent)]
    Declare(#[from] DeclareError),
    #[error(transparent)]
    Bad(#[from] BadRequest),
    #[error(transparent)]
    Pull(#[from] PullError),
    #[error(transparent)]
    Full(#[from] PartitionError),
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
