//! The part of a segment that is not durable yet. It stays in memory until it is, so that it can be written again.
//!
//! ```text
//! segment:  [ header, snapshot, facts … | bytes[..written] | bytes[written..] ]
//!           on disk           durable_end  written           in memory only
//! ```
//!
//! Positions count the bytes of records since the journal was opened; compaction moves bytes to another file but never
//! changes a position. [`super::committer`] decides when to sync, and informs the waiters.

use std::io;

use super::record::{self, Kind};
use super::segment_file::SegmentFile;
use super::{JournalError, Lsn};

/// The most bytes that may wait for the disk.
pub(super) const BACKLOG: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct Tail {
    file: SegmentFile,
    /// The end of the durable part in the file.
    durable_end: u64,
    /// The position of `bytes[0]`.
    start: u64,
    bytes: Vec<u8>,
    /// The written part of `bytes`. It ends at a record.
    written: usize,
    /// An fsync failed: the system may have dropped written pages, so everything is written once more.
    pages_in_doubt: bool,
    last: Lsn,
    last_written: Lsn,
}

/// The written part at one moment, which the next sync of `file` makes durable.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) file: SegmentFile,
    pub(super) lsn: Lsn,
    position: u64,
}

impl Tail {
    /// The empty tail of a segment whose first `durable_end` bytes are durable.
    pub(super) fn new(file: SegmentFile, durable_end: u64) -> Self {
        Self {
            file,
            durable_end,
            start: 0,
            bytes: Vec::new(),
            written: 0,
            pages_in_doubt: false,
            last: Lsn(0),
            last_written: Lsn(0),
        }
    }

    pub(super) fn append(&mut self, payload: &[u8]) -> Result<Lsn, JournalError> {
        if self.bytes.len() + record::size(payload) > BACKLOG {
            return Err(JournalError::Backlog { bytes: self.bytes.len() });
        }
        record::put(&mut self.bytes, Kind::Fact, payload);
        self.last = Lsn(self.last.0 + 1);
        Ok(self.last)
    }

    /// The last appended fact.
    pub(super) fn last(&self) -> Lsn {
        self.last
    }

    /// Whether less than half of the backlog is used.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() < BACKLOG / 2
    }

    /// The position of the next record.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The file's length after all writes.
    pub(super) fn file_length(&self) -> u64 {
        self.durable_end + self.bytes.len() as u64
    }

    /// Writes everything that is not written. After an error the written part is as before.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if self.pages_in_doubt {
            // The same bytes go to the same offset: a process killed meanwhile leaves no gap.
            self.file.write_at(&self.bytes[..self.written], self.durable_end)?;
            self.pages_in_doubt = false;
        }
        let good_end = self.durable_end + self.written as u64;
        if let Err(error) = self.file.write_at(&self.bytes[self.written..], good_end) {
            // Half a record may be written. Truncating frees its space. If that fails too, the next try overwrites it
            // with the same bytes, and a reader stops in front of it.
            let _ = self.file.truncate(good_end);
            return Err(error);
        }
        self.written = self.bytes.len();
        self.last_written = self.last;
        Ok(())
    }

    /// The part that a sync starting here makes durable.
    pub(super) fn mark(&self) -> Mark {
        Mark { file: self.file.clone(), lsn: self.last_written, position: self.start + self.written as u64 }
    }

    /// Drops the part that is durable after the sync for `mark`.
    pub(super) fn synced(&mut self, mark: &Mark) {
        let durable = (mark.position - self.start) as usize;
        self.forget(durable);
        self.written -= durable;
        self.durable_end += durable as u64;
    }

    /// Notes a failed sync.
    pub(super) fn sync_failed(&mut self) {
        self.pages_in_doubt = true;
    }

    /// Copies everything after `position` into `file` at `offset`, before [`Tail::move_to`].
    pub(super) fn copy_after(&self, position: u64, file: &SegmentFile, offset: u64) -> io::Result<()> {
        file.write_at(&self.bytes[self.index(position)..], offset)
    }

    /// Continues in `file`. Its first `durable_end` bytes hold everything up to `position`, and [`Tail::copy_after`]
    /// has copied the rest.
    pub(super) fn move_to(&mut self, file: SegmentFile, durable_end: u64, position: u64) {
        self.forget(self.index(position));
        self.written = self.bytes.len();
        self.last_written = self.last;
        self.pages_in_doubt = false;
        self.file = file;
        self.durable_end = durable_end;
    }

    /// Whether everything after `position` is still in memory.
    pub(super) fn reaches_back_to(&self, position: u64) -> bool {
        position >= self.start
    }

    fn index(&self, position: u64) -> usize {
        debug_assert!(self.reaches_back_to(position), "only what is in memory can move");
        (position - self.start) as usize
    }

    fn forget(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.start += count as u64;
    }
}
