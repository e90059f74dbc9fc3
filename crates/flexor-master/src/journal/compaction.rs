//! Compaction: replaces a long segment by one that begins with a current snapshot.
//!
//! The fresh segment is written beside the old one as `….log.new`, synced, and renamed over it. A crash before the
//! rename leaves the complete old segment, and a `.new` file that no reader opens. A crash after it leaves the fresh
//! one. A power cut may undo the rename until the folder is synced, so nothing counts as durable before that.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use flexor_model::Generation;

use super::JournalError;
use super::folder::{self, StateFolder};
use super::record::{self, Kind};
use super::segment::Header;
use super::segment_file::{Disk, SegmentFile};

/// A segment grows by at least this before compaction.
pub(super) const MIN_GROWTH: u64 = 4 << 20;

#[derive(Debug)]
pub(super) struct Compaction {
    /// The state with every fact before `position`.
    pub(super) snapshot: Vec<u8>,
    /// The end of the tail when the snapshot was taken.
    pub(super) position: u64,
}

/// The segment length from which compaction pays, given the length of header and snapshot. At most half of all written
/// bytes are written twice.
pub(super) fn pays_at(snapshot_end: u64) -> u64 {
    snapshot_end + snapshot_end.max(MIN_GROWTH)
}

/// A new segment with synced header and snapshot. Removed on drop unless it replaced the old one.
#[derive(Debug)]
pub(super) struct FreshSegment {
    pub(super) file: SegmentFile,
    /// The length of header and snapshot.
    pub(super) end: u64,
    pub(super) path: PathBuf,
}

impl FreshSegment {
    pub(super) fn write(
        folder: &StateFolder,
        header: &Header,
        disk: &Disk,
        snapshot: &[u8],
    ) -> Result<Self, JournalError> {
        let path = folder.unfinished_segment(header.generation);
        let mut bytes = header.to_bytes();
        record::put(&mut bytes, Kind::Snapshot, snapshot);
        let created = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = disk.file(created.map_err(JournalError::unusable("make", &path))?);
        let fresh = Self { file, end: bytes.len() as u64, path };
        fresh.file.write_at(&bytes, 0).and_then(|()| fresh.file.sync()).map_err(JournalError::full(&fresh.path))?;
        Ok(fresh)
    }

    /// Replaces the segment of `generation`.
    pub(super) fn replace_segment(&self, folder: &StateFolder, generation: Generation) -> Result<(), JournalError> {
        // Without this check a superseded master could restore a segment that its successor has removed.
        folder.fence(generation)?;
        let place = folder.segment(generation);
        fs::rename(&self.path, &place).map_err(JournalError::unusable("replace", &place))
    }
}

impl Drop for FreshSegment {
    fn drop(&mut self) {
        // After the rename no file has this name.
        folder::remove(&self.path);
    }
}
