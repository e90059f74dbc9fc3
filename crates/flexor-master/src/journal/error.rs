//! What can go wrong with a journal, in words for the person who runs the job.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flexor_model::{Generation, JobUid};

/// Why a journal cannot be opened, or does not take or keep a fact.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// The folder or a file of it cannot be used.
    #[error("cannot {action} {}: {error}; the state folder must be one that this user may read and write", path.display())]
    Unusable {
        /// What was tried.
        action: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// The folder belongs to another job.
    #[error("{} is the journal of job {found}, not of {wanted}; give every job a state folder of its own", path.display())]
    WrongJob {
        /// The segment that says so.
        path: PathBuf,
        /// Whose it is.
        found: JobUid,
        /// Whose it should be.
        wanted: JobUid,
    },
    /// A later Flexor wrote it.
    #[error("{} has format {found}, this program knows up to {known}; use the Flexor that wrote it, or a later one", path.display())]
    NewerFormat {
        /// The segment that says so.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// The part of a segment that everything after it rests on is unreadable, though it was once complete.
    #[error(
        "{} is damaged at byte {offset}, before its snapshot ends; restore it from a backup, or move the folder away to \
         start the job afresh",
        path.display()
    )]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// Where the first unreadable record begins.
        offset: u64,
    },
    /// Something was decided that what is in the journal does not allow; this process is to end.
    #[error(
        "what was decided contradicts the journal: {0}; this master must end, and the next one goes on from the journal"
    )]
    Contradiction(String),
    /// Another master has taken the job over; this process is to end.
    #[error("a master of generation {by} has taken over this job's journal; this one must end")]
    Superseded {
        /// The generation of the other.
        by: Generation,
    },
    /// Somebody removed the journal under a running master; this process is to end.
    #[error("{} was removed while in use; this master must end, because the next one will not find its facts", path.display())]
    Removed {
        /// The segment or the folder.
        path: PathBuf,
    },
    /// The disk does not take more; what was appended is kept in memory and tried again.
    #[error("the disk under {} does not take the journal: {error}; make room and it goes on by itself", path.display())]
    Full {
        /// The segment.
        path: PathBuf,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// Too much waits to be written, because the disk has not taken anything for long.
    #[error("{bytes} bytes of facts wait for the disk, which is the limit; make room and it goes on by itself")]
    Backlog {
        /// How much waits.
        bytes: usize,
    },
    /// A snapshot beyond what a record can hold.
    #[error("a snapshot of {bytes} bytes is larger than a journal record can be")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The journal was closed while somebody waited for it.
    #[error("the journal was closed before this fact was durable")]
    Closed,
}

impl JournalError {
    /// Whether nothing can follow: the master holding this journal has to end.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Superseded { .. } | Self::Removed { .. } | Self::Closed | Self::Contradiction(_) => true,
            Self::Unusable { .. }
            | Self::WrongJob { .. }
            | Self::NewerFormat { .. }
            | Self::Damaged { .. }
            | Self::Full { .. }
            | Self::Backlog { .. }
            | Self::TooLarge { .. } => false,
        }
    }

    /// Whether there is just no room on the disk.
    #[must_use]
    pub fn is_for_want_of_room(&self) -> bool {
        match self {
            Self::Full { .. } | Self::Backlog { .. } => true,
            Self::Unusable { error, .. } => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::WrongJob { .. }
            | Self::NewerFormat { .. }
            | Self::Damaged { .. }
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
