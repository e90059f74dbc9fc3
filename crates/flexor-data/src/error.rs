//! Why data cannot be read.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::damage::Damage;
use crate::format::Format;

/// Why data cannot be read.
#[derive(Debug, Error)]
pub enum DataError {
    /// An I/O error.
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A folder has no data files.
    #[error("no data files in {}; hidden files, .json, .md and .half files are ignored", .0.display())]
    Nothing(PathBuf),
    /// A file is given twice.
    #[error("{} is given twice", .0.display())]
    Twice(PathBuf),
    /// The format of a file is unknown.
    #[error(
        "{} is neither RecordIO nor IDX, and does not end in .csv or .txt; name it so, or make RecordIO of it with \
         `flexor data convert --format`",
        .0.display()
    )]
    Unknown(PathBuf),
    /// Files of different formats.
    #[error("{} is {first_format} and {} is {other_format}: a dataset has one format", first.display(), other.display())]
    Mixed { first: PathBuf, first_format: Format, other: PathBuf, other_format: Format },
    /// Tables with different columns.
    #[error("the columns of {} are not those of {}", other.display(), first.display())]
    Columns { first: PathBuf, other: PathBuf },
    /// A file has changed since it was opened.
    #[error(
        "{} has changed since it was opened: it had {was} bytes, it has {now}{}; data must stay as it is while it is \
         used: put changed data into another file and start again",
        path.display(), if was == now { ", and was written to" } else { "" }
    )]
    Changed {
        path: PathBuf,
        /// Its size when it was opened.
        was: u64,
        /// Its size now.
        now: u64,
    },
    /// A part of a file is damaged.
    #[error("{0}; restore the file, or skip such records with --damaged skip")]
    Damaged(Damage),
    /// All records are damaged, so skipping them would leave nothing.
    #[error("none of the records can be read: {0}; restore the file")]
    NothingLeft(Damage),
    /// An IDX file contradicts itself or its counterpart.
    #[error("{}: {why}", path.display())]
    Idx { path: PathBuf, why: String },
    /// A line is too long, or a quote is not closed.
    #[error("{}: {why}, at byte {offset}", path.display())]
    Lines { path: PathBuf, offset: u64, why: &'static str },
    /// The range exceeds the dataset.
    #[error("records {} to {} were requested, and there are {records}", range.start, range.end)]
    PastTheEnd { range: Range<u64>, records: u64 },
}

impl DataError {
    /// Wraps an I/O error of a file.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
