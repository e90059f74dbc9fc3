//! Positioned reads from files and from memory.
//!
//! [`Window`] moves forwards through a part. Peeking reads ahead and skipping reads nothing. No memory is allocated for
//! bytes that do not exist, so lengths from damaged files are harmless.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A source of bytes for positioned reads by several threads.
pub trait ReadAt: Sync {
    /// Fills the buffer with the bytes at `offset`.
    ///
    /// # Errors
    ///
    /// There are fewer bytes, or an I/O error.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// The number of bytes.
    ///
    /// # Errors
    ///
    /// The size is unknown.
    fn size(&self) -> io::Result<u64>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl ReadAt for &[u8] {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let there = start.and_then(|start| self.get(start..start.checked_add(buffer.len())?));
        buffer.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl ReadAt for Arc<[u8]> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_ref().read_exact_at(buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// The least number of bytes per read.
const READ_AHEAD: u64 = 64 << 10;

/// A part of a source, read from its start to its end.
pub(crate) struct Window<'a> {
    source: &'a dyn ReadAt,
    /// Read ahead: `buffer[passed..]` begins at `position`.
    buffer: Vec<u8>,
    passed: usize,
    position: u64,
    end: u64,
}

/// Why a window cannot advance.
#[derive(Debug)]
pub(crate) enum WindowError {
    /// The part is shorter.
    End,
    /// An I/O error.
    Io(io::Error),
}

impl<'a> Window<'a> {
    /// The bytes from `start` to `end`.
    pub(crate) fn new(source: &'a dyn ReadAt, start: u64, end: u64) -> Self {
        Self { source, buffer: Vec::new(), passed: 0, position: start, end }
    }

    /// The offset of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The remaining bytes.
    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.position)
    }

    /// The next bytes, without advancing.
    pub(crate) fn peek(&mut self, count: usize) -> Result<&[u8], WindowError> {
        if count as u64 > self.left() {
            return Err(WindowError::End);
        }
        if self.buffer.len() - self.passed < count {
            self.buffer.drain(..self.passed);
            self.passed = 0;
            let held = self.buffer.len();
            // At most the remaining bytes, so this fits wherever `count` does.
            let wanted = self.left().min(READ_AHEAD.max(count as u64)) as usize;
            self.buffer.resize(wanted, 0);
            let read = self.source.read_exact_at(&mut self.buffer[held..], self.position + held as u64);
            if let Err(error) = read {
                self.buffer.truncate(held);
                return Err(WindowError::Io(error));
            }
        }
        Ok(&self.buffer[self.passed..self.passed + count])
    }

    /// Skips bytes.
    pub(crate) fn skip(&mut self, count: u64) -> Result<(), WindowError> {
        if count > self.left() {
            return Err(WindowError::End);
        }
        self.position += count;
        match usize::try_from(count) {
            Ok(count) if count <= self.buffer.len() - self.passed => self.passed += count,
            Ok(_) | Err(_) => {
                self.buffer.clear();
                self.passed = 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_sees_its_part_and_nothing_else() {
        let bytes: Arc<[u8]> = (0..=255).collect();
        let mut window = Window::new(&bytes, 10, 20);
        assert_eq!(window.peek(2).unwrap(), [10, 11]);
        window.skip(4).unwrap();
        assert_eq!((window.position(), window.left()), (14, 6));
        assert_eq!(window.peek(6).unwrap(), [14, 15, 16, 17, 18, 19]);
        assert!(matches!(window.peek(7), Err(WindowError::End)));
        assert!(matches!(window.skip(7), Err(WindowError::End)));
        window.skip(6).unwrap();
        assert_eq!(window.left(), 0);
    }

    #[test]
    fn skipping_past_what_was_read_goes_on_at_the_right_place() {
        let bytes: Arc<[u8]> = (0..200_000_u32).map(|number| (number / 1000) as u8).collect();
        let mut window = Window::new(&bytes, 0, bytes.len() as u64);
        assert_eq!(window.peek(1).unwrap(), [0]);
        window.skip(150_000).unwrap();
        assert_eq!(window.peek(1001).unwrap()[999..], [150, 151]);
        assert_eq!(window.peek(50_000).unwrap().last(), Some(&199));
    }

    #[test]
    fn bytes_that_are_not_there_are_an_error_of_reading() {
        let bytes = &b"short"[..];
        let mut window = Window::new(&bytes, 0, 1 << 60);
        assert!(matches!(window.peek(5), Err(WindowError::Io(_))));
    }
}
