//! A storage in memory that can crash at any step and flip any bit.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;

use parking_lot::Mutex;

use crate::checkpoint::Storage;

#[derive(Debug, Default)]
pub(super) struct InMemory {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Steps until the crash.
    steps_left: Option<Mutex<usize>>,
    largest_read: Mutex<usize>,
}

impl InMemory {
    pub(super) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.files.lock().clone()
    }

    /// A copy that fails after `steps` steps. Every write and every rename is a step.
    pub(super) fn crashing_after(&self, steps: usize) -> Self {
        Self { files: Mutex::new(self.files()), steps_left: Some(Mutex::new(steps)), ..Self::default() }
    }

    /// The files that a new process finds.
    pub(super) fn after_crash(&self) -> Self {
        Self { files: Mutex::new(self.files()), ..Self::default() }
    }

    pub(super) fn with_file(&self, name: &str, bytes: &[u8]) -> Self {
        let mut files = self.files();
        files.insert(name.to_owned(), bytes.to_vec());
        Self { files: Mutex::new(files), ..Self::default() }
    }

    pub(super) fn with_flipped_bit(&self, name: &str, byte: usize, bit: usize) -> Self {
        let mut bytes = self.files().remove(name).unwrap();
        bytes[byte] ^= 1 << bit;
        self.with_file(name, &bytes)
    }

    /// The largest single read, in bytes.
    pub(super) fn largest_read(&self) -> usize {
        *self.largest_read.lock()
    }

    fn step(&self) -> io::Result<()> {
        let Some(left) = &self.steps_left else { return Ok(()) };
        let mut left = left.lock();
        *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the machine has crashed"))?;
        Ok(())
    }
}

struct PartialFile<'a> {
    of: &'a InMemory,
    bytes: Vec<u8>,
}

impl Write for PartialFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.of.step()?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for InMemory {
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut partial = PartialFile { of: self, bytes: Vec::new() };
        write(&mut partial)?;
        self.step()?;
        self.files.lock().insert(name.to_owned(), partial.bytes);
        Ok(())
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let files = self.files.lock();
        let bytes = files.get(name).ok_or(ErrorKind::NotFound)?;
        let read = bytes.get(range.start as usize..range.end as usize).ok_or(ErrorKind::UnexpectedEof)?;
        let mut largest = self.largest_read.lock();
        *largest = read.len().max(*largest);
        Ok(read.to_vec())
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        Ok(self.files.lock().get(name).ok_or(ErrorKind::NotFound)?.len() as u64)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.step()?;
        self.files.lock().remove(name);
        Ok(())
    }

    fn delete_directory(&self, directory: &str) -> io::Result<()> {
        self.step()?;
        self.files.lock().retain(|name, _| !name.starts_with(&format!("{directory}/")));
        Ok(())
    }
}
