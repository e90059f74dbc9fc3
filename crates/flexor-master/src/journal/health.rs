//! The health of the journal, for status pages and for pausing the job.

use crate::clock::UnixMicros;

use super::JournalError;

/// Whether the journal accepts facts. It changes by itself.
#[derive(Debug, Clone)]
pub enum Health {
    Writable,
    /// The disk is full or fails. Nothing is acknowledged, nothing is lost, and writes are retried.
    Full {
        since: UnixMicros,
        /// The error and what to do.
        error: JournalError,
    },
    /// No fact is accepted any more; the master must end with this error.
    Ended(JournalError),
}

impl Health {
    #[must_use]
    pub fn is_writable(&self) -> bool {
        matches!(self, Self::Writable)
    }
}
