//! Where checkpoints are kept: files that appear whole or not at all.

use std::io::{self, Write};
use std::ops::Range;

/// A place for files. Names are a folder and a file in it, with a slash between.
///
/// What is promised: a file that [`Storage::put`] has put is there whole after any crash, and one that it has not put
/// is not there at all. Object stores can promise the same.
pub trait Storage: Send + Sync {
    /// Writes a file with what `write` writes. If that fails, or the machine does, the file is not there.
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()>;

    /// Reads some bytes of a file; fails if it has not so many.
    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;

    /// How many bytes a file has.
    fn size(&self, name: &str) -> io::Result<u64>;

    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Deletes a file; one that is not there is deleted already.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Deletes a folder with everything that is in it, also what never became a file.
    fn delete_folder(&self, folder: &str) -> io::Result<()>;
}
