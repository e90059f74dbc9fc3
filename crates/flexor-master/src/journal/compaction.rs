//! A segment that has grown long is replaced by one that begins with the state of this moment.
//!
//! The fresh segment is written beside the old one as `….log.new`, synced, and renamed over it. A crash before the
//! rename leaves the old segment, which is complete, and a `.new` that nobody reads; a crash after it leaves the fresh
//! one. A power cut may undo the rename as long as the folder is not synced, so nothing counts as durable before that.

use std::fs::{self, File};
use std::path::PathBuf;

use flexor_model::Generation;

use super::JournalError;
use super::folder::{self, StateFolder};
use super::record::{self, Kind};
use super::segment::Header;
use super::segment_file::{Disk, SegmentFile};

/// A segment grows by at least this before it is compacted.
pub(super) const AT_LEAST: u64 = 4 << 20;

/// A compaction that was asked for.
#[derive(Debug)]
pub(super) struct Compaction {
    /// The state, with every fact before `position`.
    pub(super) snapshot: Vec<u8>,
    /// Where the tail ended when the state was taken.
    pub(super) position: u64,
}

/// The length from which on compaction pays for a segment that began with this much header and snapshot: what is
/// written twice is never more than half of all.
pub(super) fn pays_at(snapshot_end: u64) -> u64 {
    snapshot_end + snapshot_end.max(AT_LEAST)
}

/// A segment in the making: header and snapshot, synced. Removed again unless it takes its place.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) file: SegmentFile,
    /// The length of header and snapshot.
    pub(super) end: u64,
    pub(super) path: PathBuf,
}

impl Fresh {
    pub(super) fn write(
        folder: &StateFolder,
        header: &Header,
        disk: &Disk,
        snapshot: &[u8],
    ) -> Result<Self, JournalError> {
        let path = folder.segment_in_the_making(header.generation);
        let mut bytes = header.to_bytes();
        record::put(&mut bytes, Kind::Snapshot, snapshot);
        let file = disk.file(File::create(&path).map_err(JournalError::unusable("make", &path))?);
        let fresh = Self { file, end: bytes.len() as u64, path };
        fresh.file.write_at(&bytes, 0).and_then(|()| fresh.file.sync()).map_err(JournalError::full(&fresh.path))?;
        Ok(fresh)
    }

    /// Takes the place of the segment of `generation`.
    pub(super) fn replace_segment(&self, folder: &StateFolder, generation: Generation) -> Result<(), JournalError> {
        // Without this a superseded master could put back a segment that its successor has removed.
        folder.fence(generation)?;
        let place = folder.segment(generation);
        fs::rename(&self.path, &place).map_err(JournalError::unusable("replace", &place))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // After the rename there is nothing of this name.
        folder::remove(&self.path);
    }
}
