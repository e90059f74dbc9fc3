//! Errors of a journal, with advice for the operator.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flexor_model::{Generation, JobUid};

/// What an operator can do about facts that cannot be read.
fn advice(first: &str) -> String {
    format!(
        "{first}, or start the master with --accept-journal-loss (a laptop: `flexor run --resume \
         --accept-journal-loss`), which counts what is open again and keeps what is left of the file as .damaged"
    )
}

/// Why a journal cannot be opened, or does not accept or store a fact.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// The folder or a file of it cannot be used.
    #[error("cannot {action} {}: {error}; the state folder must be one that this user may read and write", path.display())]
    Unusable { action: &'static str, path: PathBuf, error: Arc<io::Error> },
    /// The folder belongs to another job.
    #[error("{} is the journal of job {found}, not of {wanted}; give every job a state folder of its own", path.display())]
    WrongJob {
        /// The segment that says so.
        path: PathBuf,
        found: JobUid,
        wanted: JobUid,
    },
    /// A later version of Flexor wrote it.
    #[error("{} has format {found}, this program knows up to {known}; use the Flexor that wrote it, or a later one", path.display())]
    NewerFormat {
        /// The segment that says so.
        path: PathBuf,
        found: u32,
        known: u32,
    },
    /// A record of a segment is unreadable, though acknowledged facts follow it.
    #[error(
        "{} is damaged at byte {offset}: {}; {}",
        path.display(),
        if *everything { "its snapshot cannot be read".to_owned() } else { format!("{facts_behind} good facts behind it would be forgotten") },
        advice("restore the file from a backup"),
    )]
    Damaged {
        path: PathBuf,
        /// Where the first unreadable record begins.
        offset: u64,
        /// Facts behind the damage, as far as they were found.
        facts_behind: usize,
        /// Nothing before the damage can be used either.
        everything: bool,
    },
    /// A master has begun this segment, and now it is missing or holds no snapshot.
    #[error("{} is missing or cut, though a master has begun it and acknowledged facts; {}", path.display(), advice("restore it from a backup"))]
    Missing { path: PathBuf },
    /// A decision contradicts the journal; this process must end.
    #[error(
        "a decision contradicts the journal: {0}; this master must end, and the next one continues from the journal"
    )]
    Contradiction(String),
    /// Another master has taken over the job; this process must end.
    #[error("a master of generation {by} has taken over this job's journal; this one must end")]
    Superseded { by: Generation },
    /// The journal was removed while in use; this process must end.
    #[error("{} was removed while in use; this master must end, because the next one will not find its facts", path.display())]
    Removed { path: PathBuf },
    /// The disk accepts no more data. The facts stay in memory and are retried.
    #[error("the disk under {} does not accept the journal: {error}; free some space and it continues by itself", path.display())]
    Full { path: PathBuf, error: Arc<io::Error> },
    /// Too many bytes wait, because the disk has accepted nothing for long.
    #[error("{bytes} bytes of facts wait for the disk, which is the limit; free some space and it continues by itself")]
    Backlog { bytes: usize },
    /// A snapshot is larger than a record can be.
    #[error("a snapshot of {bytes} bytes is larger than a journal record can be")]
    TooLarge { bytes: usize },
    /// The journal was closed before a waiter's fact was durable.
    #[error("the journal was closed before this fact was durable")]
    Closed,
}

impl JournalError {
    /// Whether the master that owns this journal must end.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Superseded { .. } | Self::Removed { .. } | Self::Closed | Self::Contradiction(_) => true,
            Self::Unusable { .. }
            | Self::WrongJob { .. }
            | Self::NewerFormat { .. }
            | Self::Damaged { .. }
            | Self::Missing { .. }
            | Self::Full { .. }
            | Self::Backlog { .. }
            | Self::TooLarge { .. } => false,
        }
    }

    /// Whether acknowledged facts are lost, so that an operator has to decide.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Missing { .. })
    }

    /// Whether the disk is full or over quota.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Full { .. } | Self::Backlog { .. } => true,
            Self::Unusable { error, .. } => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::WrongJob { .. }
            | Self::NewerFormat { .. }
            | Self::Damaged { .. }
            | Self::Missing { .. }
            | Self::Superseded { .. }
            | Self::Removed { .. }
            | Self::TooLarge { .. }
            | Self::Contradiction(_)
            | Self::Closed => false,
        }
    }

    pub(super) fn unusable(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Unusable { action, path: path.to_owned(), error: Arc::new(error) }
    }

    pub(super) fn full(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Full { path: path.to_owned(), error: Arc::new(error) }
    }
}
