//! The end of a segment that is not yet durable: kept in memory until it is, so that it can be written again.
//!
//! ```text
//! segment:  [ header, snapshot, facts … | bytes[..written] | bytes[written..] ]
//!           on disk           durable_end  with the system   in memory only
//! ```
//!
//! Positions count the bytes of records since the journal was opened; compaction moves bytes to another file but never
//! changes a position. Who waits for what, and when to sync, is [`super::committer`]'s affair.

use std::io;

use super::record::{self, Kind};
use super::segment_file::SegmentFile;
use super::{JournalError, Lsn};

/// How much may wait for the disk.
pub(super) const BACKLOG: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct Tail {
    file: SegmentFile,
    /// Where in the file the durable part ends.
    durable_end: u64,
    /// The position of `bytes[0]`.
    start: u64,
    bytes: Vec<u8>,
    /// How much of `bytes` the system has. It ends at a record.
    written: usize,
    /// An fsync failed: the system may have thrown away what it had, so it is given everything once more.
    pages_in_doubt: bool,
    last: Lsn,
    last_written: Lsn,
}

/// What the system had at one moment; becomes durable with the next sync of `file`.
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

    /// The fact appended last.
    pub(super) fn last(&self) -> Lsn {
        self.last
    }

    /// Whether less than half of what may wait does.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() < BACKLOG / 2
    }

    /// Where the next record will begin.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// How long the file is, or will be.
    pub(super) fn file_length(&self) -> u64 {
        self.durable_end + self.bytes.len() as u64
    }

    /// Gives the system all that it does not have. After an error it has what it had before.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if self.pages_in_doubt {
            // The same bytes to the same place: a process killed meanwhile leaves no gap.
            self.file.write_at(&self.bytes[..self.written], self.durable_end)?;
            self.pages_in_doubt = false;
        }
        let good_end = self.durable_end + self.written as u64;
        if let Err(error) = self.file.write_at(&self.bytes[self.written..], good_end) {
            // Half a record may stand there. Cutting it off gives its room back; where that fails too, the next try
            // writes the same bytes over it, and a reader stops in front of it.
            let _ = self.file.cut_to(good_end);
            return Err(error);
        }
        self.written = self.bytes.len();
        self.last_written = self.last;
        Ok(())
    }

    /// What a sync that begins here makes durable.
    pub(super) fn mark(&self) -> Mark {
        Mark { file: self.file.clone(), lsn: self.last_written, position: self.start + self.written as u64 }
    }

    /// The sync for `mark` succeeded.
    pub(super) fn synced(&mut self, mark: &Mark) {
        let durable = (mark.position - self.start) as usize;
        self.forget(durable);
        self.written -= durable;
        self.durable_end += durable as u64;
    }

    /// A sync failed.
    pub(super) fn sync_failed(&mut self) {
        self.pages_in_doubt = true;
    }

    /// Writes what comes after `position` into `file` at `offset`, as part of moving there.
    pub(super) fn copy_after(&self, position: u64, file: &SegmentFile, offset: u64) -> io::Result<()> {
        file.write_at(&self.bytes[self.index(position)..], offset)
    }

    /// Goes on in `file`, whose first `durable_end` bytes hold everything up to `position` and which has the rest by
    /// [`Tail::copy_after`].
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
