//! Whether the journal takes facts, for whoever shows it or pauses the job because of it.

use crate::clock::UnixMicros;

use super::JournalError;

/// The state of a journal's disk and ownership; it changes by itself.
#[derive(Debug, Clone)]
pub enum Health {
    /// Facts are taken.
    Writable,
    /// The disk is full or fails. Nothing is acknowledged, nothing is lost, and it is tried again by itself.
    Full {
        /// Since when.
        since: UnixMicros,
        /// What the disk says and what to do.
        error: JournalError,
    },
    /// Nothing will be taken any more; the master is to end with this.
    Ended(JournalError),
}

impl Health {
    /// Whether facts are taken.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        matches!(self, Self::Writable)
    }
}
