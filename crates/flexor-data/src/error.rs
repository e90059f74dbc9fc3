//! Why data cannot be had.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::damage::Damage;
use crate::format::Format;

/// Why data cannot be had.
#[derive(Debug, Error)]
pub enum DataError {
    /// The system refuses.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder without data.
    #[error("no data files in {}; hidden files, .json, .md and .half are not taken for data", .0.display())]
    Nothing(PathBuf),
    /// The same file twice.
    #[error("{} is named twice", .0.display())]
    Twice(PathBuf),
    /// Nobody knows what a file holds.
    #[error(
        "{} is neither RecordIO nor IDX, and does not end in .csv or .txt; name it so, or make RecordIO of it with \
         `flexor data convert --format`",
        .0.display()
    )]
    Unknown(PathBuf),
    /// Files that cannot be one dataset.
    #[error("{} is {first_format} and {} is {other_format}: a dataset has one format", first.display(), other.display())]
    Mixed {
        /// One file.
        first: PathBuf,
        /// Its format.
        first_format: Format,
        /// Another file.
        other: PathBuf,
        /// Its format.
        other_format: Format,
    },
    /// Tables that cannot be one dataset.
    #[error("the columns of {} are not those of {}", other.display(), first.display())]
    Columns {
        /// One file.
        first: PathBuf,
        /// Another file.
        other: PathBuf,
    },
    /// A file is not what it was.
    #[error(
        "{} has changed since it was opened: it had {was} bytes, it has {now}{}; data must stay as it is while it is \
         used: put changed data into another file and start again",
        path.display(), if was == now { ", and was written to" } else { "" }
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// How many bytes it had.
        was: u64,
        /// How many it has.
        now: u64,
    },
    /// A part of a file is damaged.
    #[error("{0}; restore the file, or leave such records out with --damaged skip")]
    Damaged(Damage),
    /// All that there is is damaged, and to leave it out would leave nothing.
    #[error("none of the records can be read: {0}; restore the file")]
    NothingLeft(Damage),
    /// An IDX file that contradicts itself or its other half.
    #[error("{}: {why}", path.display())]
    Idx {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Lines that are none.
    #[error("{}: {why}, at byte {offset}", path.display())]
    Lines {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// Records that do not exist.
    #[error("records {} to {} were asked for; there are {records}", range.start, range.end)]
    PastTheEnd {
        /// What was asked for.
        range: Range<u64>,
        /// How many there are.
        records: u64,
    },
}

impl DataError {
    /// The system refuses something about a file.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
