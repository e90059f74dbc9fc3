//! The interface of checkpoint storage: files that appear complete or not at all.

use std::io::{self, Write};
use std::ops::Range;

/// Storage for files named `directory/file`.
///
/// Guarantee: after [`Storage::put`] returned, the file is complete after any crash. Before that it does not exist.
/// Object stores can guarantee the same.
pub trait Storage: Send + Sync {
    /// Creates a file with the bytes that `write` writes. If `write` or the machine fails, the file does not exist.
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()>;

    /// Reads a range of a file; fails if the file ends before it.
    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;

    fn size(&self, name: &str) -> io::Result<u64>;

    fn list(&self) -> io::Result<Vec<String>>;

    /// Deletes a file. A missing file is no error.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Deletes a directory with all files, including incomplete ones.
    fn delete_directory(&self, directory: &str) -> io::Result<()>;
}
