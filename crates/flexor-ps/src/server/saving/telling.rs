//! A place for files that tells that they are being written: whoever waits cannot know how much there is to write.

use std::io::{self, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::checkpoint::Storage;

/// How often it is told.
const EVERY: Duration = Duration::from_secs(1);

/// A place, and whom to tell.
pub(super) struct Telling<'a, F> {
    pub(super) storage: &'a dyn Storage,
    pub(super) tell: F,
}

impl<F: Fn() + Send + Sync> Storage for Telling<'_, F> {
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.storage.put(name, &mut |file| write(&mut Told { file, tell: &self.tell, last: Instant::now() }))
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

    fn delete_folder(&self, folder: &str) -> io::Result<()> {
        self.storage.delete_folder(folder)
    }
}

/// A file of which it is told that it grows.
struct Told<'a> {
    file: &'a mut dyn Write,
    tell: &'a dyn Fn(),
    last: Instant,
}

impl Write for Told<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        if self.last.elapsed() >= EVERY {
            self.last = Instant::now();
            (self.tell)();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
