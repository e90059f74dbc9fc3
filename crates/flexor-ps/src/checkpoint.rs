//! Checkpoints: a model as it was at one moment, in files that are whole or not there.
//!
//! Every server writes a file of tables and a file of dense variables into the checkpoint's folder; then the manifest
//! is written, which names them all with sizes and checksums. What has no manifest is no checkpoint. Files are sorted by
//! partition, so any number of servers can read them. `docs/reference/formats.md` has the bytes.
//!
//! Nothing here decides when to write one, or waits for servers: the job's master does.

mod dense_file;
mod folder;
mod keep;
mod manifest;
mod plain_model;
mod restore;
mod saved_model;
mod storage;
mod summing;
mod table_file;
#[cfg(test)]
mod tests;
mod whose;
mod write;

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use folder::Folder;
pub use keep::{delete_unfinished, keep_last, latest, list};
pub use manifest::{Contents, FileEntry, Manifest, PartitionVersion};
pub use plain_model::export_plain;
pub use restore::Checkpoint;
pub use saved_model::SavedModel;
pub use storage::Storage;
pub use summing::CHECKSUM_EVERY;
pub use table_file::{TableFile, TableFileError};
pub(crate) use whose::Acquaintance;
pub use write::{Moment, Part, write_manifest, write_part};
pub(crate) use write::{put_manifest, put_part};

use crate::partition::ArrivalError;
use crate::placement::PartitionId;
use crate::snapshot::SnapshotLost;

/// The number of a checkpoint; later ones have higher numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointId(pub u64);

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl CheckpointId {
    /// The folder of a checkpoint.
    pub fn folder(self) -> String {
        format!("checkpoint-{:012}", self.0)
    }

    /// The checkpoint of a folder.
    pub(crate) fn of_folder(name: &str) -> Option<Self> {
        let number = name.strip_prefix("checkpoint-")?.parse().ok().map(Self)?;
        (number.folder() == name).then_some(number)
    }

    fn manifest(self) -> String {
        format!("{}/{MANIFEST}", self.folder())
    }
}

/// The file that makes a folder a checkpoint.
const MANIFEST: &str = "manifest.json";

/// Why a checkpoint cannot be written or read.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The storage failed.
    #[error("cannot {doing} '{file}': {error}")]
    Storage {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        file: String,
        /// What went wrong.
        error: io::Error,
    },
    /// Bytes that are not those that were written.
    #[error("'{file}' is damaged at byte {offset}: {why}; restore an earlier checkpoint, or this file from a copy")]
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What was found.
        why: String,
    },
    /// A checkpoint of another model.
    #[error(
        "checkpoint {id} is of another model: {why}; go on with the model that it was made of, or in another folder"
    )]
    OtherModel {
        /// The checkpoint.
        id: CheckpointId,
        /// What is different.
        why: String,
    },
    /// A checkpoint that nobody of this job has written.
    #[error(
        "checkpoint {id} is not written: another job writes into the same folder, checkpoint {other} is none of this \
         job's; give each job a folder of its own"
    )]
    OtherJob {
        /// The one that was to be written.
        id: CheckpointId,
        /// The one that is in the way.
        other: CheckpointId,
    },
    /// Partitions that are in no file, or in two.
    #[error("checkpoint {id} has partition {partition} in {files} files and not in one; a server's part is missing")]
    Partition {
        /// The checkpoint.
        id: CheckpointId,
        /// The partition.
        partition: PartitionId,
        /// How many files have it.
        files: usize,
    },
    /// Files that are whole, but do not make a partition.
    #[error("'{file}' does not hold what it should: {error}")]
    Arrival {
        /// The file.
        file: String,
        /// What does not fit.
        error: ArrivalError,
    },
    /// What a server says of its part makes no sense.
    #[error("checkpoint {id} cannot be sealed: what a server says of its part cannot be read: {error}")]
    Part {
        /// The checkpoint.
        id: CheckpointId,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// The partitions did not come to the step that is to be written.
    #[error("checkpoint {id} is of step {steps}, and partitions did not get there in time")]
    NotThere {
        /// The checkpoint.
        id: CheckpointId,
        /// After how many steps it is.
        steps: u64,
    },
    /// Nobody waits for it any more.
    #[error("checkpoint {id} was given up while it was written")]
    GivenUp {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// There is nothing to read.
    #[error("{folder} has no {}", wanted.map_or("checkpoint that is whole".to_owned(), |id| format!("checkpoint {id}")))]
    None {
        /// Where.
        folder: String,
        /// What was looked for, if it was a certain one.
        wanted: Option<CheckpointId>,
    },
    /// There is more to read than there is room for.
    #[error("checkpoint {id} has {bytes} bytes, more than the {at_most} that may be read into memory")]
    TooLarge {
        /// The checkpoint.
        id: CheckpointId,
        /// Its size.
        bytes: u64,
        /// The limit.
        at_most: u64,
    },
    /// The model changed too fast to be written.
    #[error("the checkpoint could not be finished: {0}")]
    Snapshot(#[from] SnapshotLost),
}

impl CheckpointError {
    /// Whether the place refuses that would take the checkpoint, or what is made of it.
    pub fn is_about_writing(&self) -> bool {
        matches!(self, Self::Storage { doing: "write" | "delete", .. })
    }

    /// Whether it may be otherwise in a moment, or elsewhere: the storage fails, and nobody knows what lies there.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Storage { .. })
    }

    fn storage(doing: &'static str, file: &str) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |error| Self::Storage { doing, file, error }
    }

    /// Whoever was at it panicked.
    pub(crate) fn panicked(doing: &'static str, file: &str) -> Self {
        Self::storage(doing, file)(io::Error::other("the server failed at it by itself; its log says where"))
    }

    pub(crate) fn part(id: CheckpointId, error: serde_json::Error) -> Self {
        Self::Part { id, error }
    }

    fn damaged(file: &str, offset: u64, why: impl fmt::Display) -> Self {
        Self::Damaged { file: file.to_owned(), offset, why: why.to_string() }
    }
}
