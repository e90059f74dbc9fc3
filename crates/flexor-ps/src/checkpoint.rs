//! Checkpoints: the model at one moment, in files that appear complete or not at all.
//!
//! Every server writes a table file and a file of dense variables into the directory of the checkpoint. The manifest is
//! written last; it lists all files with sizes and checksums. A directory without a manifest is not a checkpoint. Files
//! are sorted by partition, so any number of servers can restore them. `docs/reference/formats.md` has the format.
//!
//! This module does not decide when to write a checkpoint and does not wait for servers: the job's master does.

mod checksums;
mod dense_file;
mod directory;
mod job_checkpoints;
mod manifest;
mod plain_model;
mod restore;
mod retention;
mod saved_model;
mod storage;
mod table_file;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use checksums::CHECKSUM_EVERY;
pub use directory::DirectoryStorage;
pub(crate) use directory::regular_file_size;
pub(crate) use job_checkpoints::JobCheckpoints;
pub use manifest::{Contents, FileEntry, Manifest, PartitionVersion};
pub use plain_model::export_plain;
pub use restore::Checkpoint;
pub use retention::{delete_incomplete, keep_last, latest, list};
pub use saved_model::SavedModel;
pub use storage::Storage;
pub use table_file::{TableFile, TableFileError};
pub use write::{CheckpointCut, CheckpointPart, write_manifest, write_part};
pub(crate) use write::{put_manifest, put_part};

use crate::partition::ImportError;
use crate::placement::PartitionId;
use crate::snapshot::SnapshotLost;

/// The number of a checkpoint; later checkpoints have higher numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointId(pub u64);

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl CheckpointId {
    pub fn directory(self) -> String {
        format!("checkpoint-{:012}", self.0)
    }

    pub(crate) fn of_directory(name: &str) -> Option<Self> {
        let number = name.strip_prefix("checkpoint-")?.parse().ok().map(Self)?;
        (number.directory() == name).then_some(number)
    }

    fn manifest(self) -> String {
        format!("{}/{MANIFEST}", self.directory())
    }
}

/// The file that makes a directory a checkpoint.
const MANIFEST: &str = "manifest.json";

/// A checkpoint could not be written or read.
#[derive(Debug, Error)]
pub enum CheckpointError {
    #[error("cannot {doing} '{file}': {error}")]
    Storage { doing: &'static str, file: String, error: io::Error },
    #[error(
        "'{file}' is damaged at byte {offset}: {why}; restore an earlier checkpoint, or this file from a backup copy"
    )]
    Damaged { file: String, offset: u64, why: String },
    #[error(
        "checkpoint {id} is of another model: {why}; continue with the model of the checkpoint, or choose another directory"
    )]
    OtherModel { id: CheckpointId, why: String },
    #[error(
        "checkpoint {id} is not written: another job writes into the same directory, checkpoint {other} is not of this \
         job; give each job its own directory"
    )]
    OtherJob { id: CheckpointId, other: CheckpointId },
    #[error(
        "checkpoint {id} has partition {partition} in {files} files instead of one; the part of a server is missing or repeated"
    )]
    Partition { id: CheckpointId, partition: PartitionId, files: usize },
    #[error("'{file}' does not contain the expected partition: {error}")]
    Import { file: String, error: ImportError },
    #[error(
        "the manifest of checkpoint {id} cannot be written: the report of a server about its part is malformed: {error}"
    )]
    Part { id: CheckpointId, error: serde_json::Error },
    #[error("checkpoint {id} is of step {steps}, which some partitions did not reach in time")]
    StepNotReached { id: CheckpointId, steps: u64 },
    #[error("checkpoint {id} was cancelled while it was written")]
    Cancelled { id: CheckpointId },
    #[error("{directory} has no {}", wanted.map_or("complete checkpoint".to_owned(), |id| format!("checkpoint {id}")))]
    NotFound { directory: String, wanted: Option<CheckpointId> },
    #[error("checkpoint {id} has {bytes} bytes, more than the limit of {at_most} for reading it into memory")]
    TooLarge { id: CheckpointId, bytes: u64, at_most: u64 },
    #[error("the checkpoint could not be finished: {0}")]
    Snapshot(#[from] SnapshotLost),
}

impl CheckpointError {
    /// Whether the storage failed to write or delete.
    pub fn is_write_error(&self) -> bool {
        matches!(self, Self::Storage { doing: "write" | "delete", .. })
    }

    /// Whether a retry, here or on another server, may succeed: the storage failed, which says nothing about its
    /// contents.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Storage { .. })
    }

    fn storage(doing: &'static str, file: &str) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |error| Self::Storage { doing, file, error }
    }

    /// The thread that did this panicked.
    pub(crate) fn panicked(doing: &'static str, file: &str) -> Self {
        Self::storage(doing, file)(io::Error::other("the server's own code panicked; see the server's log"))
    }

    pub(crate) fn part(id: CheckpointId, error: serde_json::Error) -> Self {
        Self::Part { id, error }
    }

    fn damaged(file: &str, offset: u64, why: impl fmt::Display) -> Self {
        Self::Damaged { file: file.to_owned(), offset, why: why.to_string() }
    }
}
