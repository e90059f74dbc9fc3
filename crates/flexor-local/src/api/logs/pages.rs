//! The files of a log that are still to be read, the one that is printed into last.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::tail;

/// So much is read at a time.
const BLOCK: usize = 64 << 10;

/// The files. One that is open can be read also when it was put aside or removed.
pub(super) struct Pages {
    path: PathBuf,
    files: VecDeque<File>,
    block: Vec<u8>,
}

impl Pages {
    /// Those of a log, from its start or so that `lines` lines are left.
    pub(super) fn open(path: &Path, lines: Option<u64>) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), files: tail::open(path, lines)?.into(), block: vec![0; BLOCK] })
    }

    /// Opens the file that is printed into, if it is another one by now.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        let now = match fs::metadata(&self.path) {
            Ok(metadata) => (metadata.dev(), metadata.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let known = self.files.back().map(File::metadata).transpose()?.map(|known| (known.dev(), known.ino()));
        if known != Some(now) {
            match File::open(&self.path) {
                Ok(file) => self.files.push_back(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next bytes; nothing when all that was printed is read.
    pub(super) fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(file) = self.files.front_mut() {
            let count = file.read(&mut self.block)?;
            if count > 0 {
                return Ok(Some(self.block[..count].to_vec()));
            }
            // Nothing is printed any more into a file that has a successor.
            if self.files.len() == 1 {
                return Ok(None);
            }
            self.files.pop_front();
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_once_however_files_are_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let print = |text: &str| {
            io::Write::write_all(&mut File::options().append(true).create(true).open(&path).unwrap(), text.as_bytes())
                .unwrap();
        };
        let mut pages = Pages::open(&path, None).unwrap();
        let mut read = Vec::new();
        let mut look = |pages: &mut Pages| {
            pages.turn().unwrap();
            while let Some(bytes) = pages.read().unwrap() {
                read.extend(bytes);
            }
        };
        look(&mut pages);
        print("1");
        look(&mut pages);
        print("2");
        fs::rename(&path, folder.path().join("log.1")).unwrap();
        print("3");
        look(&mut pages);
        print("4");
        pages.turn().unwrap();
        fs::remove_file(&path).unwrap();
        look(&mut pages);
        assert_eq!(String::from_utf8(read).unwrap(), "1234");
    }
}
