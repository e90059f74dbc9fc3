//! A place for files that tells that they are being written: whoever waits cannot know how much there is to write. When
//! nobody waits any more nothing more is written.

use std::io::{self, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::checkpoint::Storage;

/// How often it is told.
const EVERY: Duration = Duration::from_secs(1);

/// A place, whom to tell, and whether anybody waits for what is written.
pub(super) struct Telling<'a, F, W> {
    pub(super) storage: &'a dyn Storage,
    pub(super) tell: F,
    pub(super) is_wanted: W,
}

impl<F: Fn() + Send + Sync, W: Fn() -> bool + Send + Sync> Storage for Telling<'_, F, W> {
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let Self { storage, tell, is_wanted } = self;
        go_on(is_wanted)?;
        storage.put(name, &mut |file| write(&mut Told { file, tell, is_wanted, last: Instant::now() }))
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

fn go_on(is_wanted: &dyn Fn() -> bool) -> io::Result<()> {
    if is_wanted() { Ok(()) } else { Err(io::Error::other("nobody waits for it any more")) }
}

/// A file of which it is told that it grows.
struct Told<'a> {
    file: &'a mut dyn Write,
    tell: &'a dyn Fn(),
    is_wanted: &'a dyn Fn() -> bool,
    last: Instant,
}

impl Write for Told<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        go_on(self.is_wanted)?;
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
