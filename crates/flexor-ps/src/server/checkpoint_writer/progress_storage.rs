//! A storage that reports progress while files are written, because the master does not know how much there is to write.
//! It stops writing when the order is cancelled.

use std::io::{self, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::checkpoint::Storage;

/// How often progress is reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Wraps a storage with a progress callback and a check for cancellation.
pub(super) struct ProgressStorage<'a, F, W> {
    pub(super) storage: &'a dyn Storage,
    pub(super) report: F,
    pub(super) is_ordered: W,
}

impl<F: Fn() + Send + Sync, W: Fn() -> bool + Send + Sync> Storage for ProgressStorage<'_, F, W> {
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let Self { storage, report, is_ordered } = self;
        check_ordered(is_ordered)?;
        storage
            .put(name, &mut |file| write(&mut ProgressWriter { file, report, is_ordered, last_report: Instant::now() }))
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.storage.read(name, range)
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        self.storage.size(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.storage.list()
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.storage.delete(name)
    }

    fn delete_directory(&self, directory: &str) -> io::Result<()> {
        self.storage.delete_directory(directory)
    }
}

fn check_ordered(is_ordered: &dyn Fn() -> bool) -> io::Result<()> {
    if is_ordered() { Ok(()) } else { Err(io::Error::other("the checkpoint is cancelled")) }
}

/// A file that reports its growth.
struct ProgressWriter<'a> {
    file: &'a mut dyn Write,
    report: &'a dyn Fn(),
    is_ordered: &'a dyn Fn() -> bool,
    last_report: Instant,
}

impl Write for ProgressWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check_ordered(self.is_ordered)?;
        let written = self.file.write(bytes)?;
        if self.last_report.elapsed() >= REPORT_EVERY {
            self.last_report = Instant::now();
            (self.report)();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
