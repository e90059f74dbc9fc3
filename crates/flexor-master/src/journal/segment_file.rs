//! A segment's file: positioned writes through the fault layer, every fsync counted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::faults::Faults;

/// A file open for writing. Clones are the same file.
#[derive(Debug, Clone)]
pub(super) struct SegmentFile {
    file: Arc<File>,
    disk: Disk,
}

/// The faults and the fsync count that all files of a journal share.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    faults: Faults,
    fsyncs: Arc<AtomicU64>,
}

impl Disk {
    pub(super) fn new(faults: &Faults) -> Self {
        Self { faults: faults.clone(), fsyncs: Arc::default() }
    }

    pub(super) fn file(&self, file: File) -> SegmentFile {
        SegmentFile { file: Arc::new(file), disk: self.clone() }
    }

    pub(super) fn fsyncs(&self) -> u64 {
        self.fsyncs.load(Ordering::Relaxed)
    }
}

impl SegmentFile {
    /// Writes `bytes` at `offset`. After an error any part of them may be written.
    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Some(error) = self.disk.faults.active().write_error {
            self.file.write_all_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(error.into());
        }
        self.file.write_all_at(bytes, offset)
    }

    /// Waits until all written bytes are on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let faults = self.disk.faults.active();
        if faults.fsync_delay_ms > 0 {
            std::thread::sleep(Duration::from_millis(faults.fsync_delay_ms));
        }
        self.disk.fsyncs.fetch_add(1, Ordering::Relaxed);
        match faults.fsync_error {
            Some(error) => Err(error.into()),
            None => self.file.sync_data(),
        }
    }

    /// Truncates the file to `length`.
    pub(super) fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
}
