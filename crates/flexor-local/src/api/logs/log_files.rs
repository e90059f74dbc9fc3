//! The files of a log that are still to be read, the current one last.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::tail;

/// Bytes that are read at a time.
const BLOCK: usize = 64 << 10;

/// An open file can still be read after it was rotated or removed.
pub(super) struct LogFiles {
    path: PathBuf,
    files: VecDeque<File>,
    block: Vec<u8>,
}

impl LogFiles {
    /// Opens the files of a log, at its start or before the last `lines` lines.
    pub(super) fn open(path: &Path, lines: Option<u64>) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), files: tail::open(path, lines)?.into(), block: vec![0; BLOCK] })
    }

    /// Opens the current file, if the log was rotated.
    pub(super) fn open_current(&mut self) -> io::Result<()> {
        let current = match fs::metadata(&self.path) {
            Ok(metadata) => (metadata.dev(), metadata.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let known = self.files.back().map(File::metadata).transpose()?.map(|known| (known.dev(), known.ino()));
        if known != Some(current) {
            match File::open(&self.path) {
                Ok(file) => self.files.push_back(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next bytes; none if everything is read.
    pub(super) fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(file) = self.files.front_mut() {
            let count = file.read(&mut self.block)?;
            if count > 0 {
                return Ok(Some(self.block[..count].to_vec()));
            }
            // A file that was rotated does not grow any more.
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
    fn every_byte_is_read_once_however_files_are_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let print = |text: &str| {
            io::Write::write_all(&mut File::options().append(true).create(true).open(&path).unwrap(), text.as_bytes())
                .unwrap();
        };
        let mut files = LogFiles::open(&path, None).unwrap();
        let mut read = Vec::new();
        let mut read_all = |files: &mut LogFiles| {
            files.open_current().unwrap();
            while let Some(bytes) = files.read().unwrap() {
                read.extend(bytes);
            }
        };
        read_all(&mut files);
        print("1");
        read_all(&mut files);
        print("2");
        fs::rename(&path, folder.path().join("log.1")).unwrap();
        print("3");
        read_all(&mut files);
        print("4");
        files.open_current().unwrap();
        fs::remove_file(&path).unwrap();
        read_all(&mut files);
        assert_eq!(String::from_utf8(read).unwrap(), "1234");
    }
}
