//! A log file with optional rotation.
//!
//! `log` is the current file, `log.1` the one before, `log.2` the one before that. A file is full when the next line does
//! not fit. Bytes are written as they arrive. A line that arrives in pieces is cut where its end does not fit. A line that
//! arrives at once is cut only if it is longer than a file. A reader sees the file renamed and a new one in its
//! place, never a file that gets shorter.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;

/// When a log file is rotated, and how many old files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Size of a full file in bytes.
    pub limit: NonZeroU64,
    /// Number of old files.
    pub keep: u32,
}

/// A log file that cannot be written any more. Its program goes on; later output is lost.
#[derive(Debug)]
pub struct LogCut {
    pub path: PathBuf,
    pub error: io::Error,
}

#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    rotation: Option<Rotation>,
    /// Size of the file in bytes; not updated without a rotation.
    size: u64,
    /// Whether the last byte ended a line.
    between_lines: bool,
    cut_listener: Option<mpsc::UnboundedSender<LogCut>>,
}

impl LogFile {
    /// Opens a file for appending. Without a rotation it grows without limit.
    ///
    /// # Errors
    ///
    /// It cannot be opened or created.
    pub fn open(path: impl Into<PathBuf>, rotation: Option<Rotation>) -> io::Result<Self> {
        let path = path.into();
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, rotation, size, between_lines: true, cut_listener: None })
    }

    /// Adds a listener for the moment when the file cannot be written any more.
    #[must_use]
    pub fn with_cut_listener(self, listener: mpsc::UnboundedSender<LogCut>) -> Self {
        Self { cut_listener: Some(listener), ..self }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file up after a failed write.
    pub(super) fn cut(self, error: io::Error) {
        if let Some(listener) = self.cut_listener {
            // The listener may be gone.
            _ = listener.send(LogCut { path: self.path, error });
        }
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let Some(rotation) = self.rotation else { return self.file.write_all(bytes) };
        while !bytes.is_empty() {
            let room = rotation.limit.get().saturating_sub(self.size);
            let now = self.fitting(bytes, usize::try_from(room).unwrap_or(usize::MAX));
            let (now, later) = bytes.split_at(now);
            if let Some(last) = now.last() {
                self.file.write_all(now)?;
                self.size += now.len() as u64;
                self.between_lines = *last == b'\n';
            }
            if !later.is_empty() {
                self.rotate(rotation.keep)?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// How many of `bytes` go into this file, which has this much room: all of them, or whole lines, or a part of a line
    /// that began in this file or has a file to itself.
    fn fitting(&self, bytes: &[u8], room: usize) -> usize {
        if bytes.len() <= room {
            return bytes.len();
        }
        match bytes[..room].iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if self.between_lines && self.size > 0 => 0,
            None => room,
        }
    }

    fn rotate(&mut self, keep: u32) -> io::Result<()> {
        let older = |number: u32| {
            let mut name = OsString::from(&self.path);
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..keep).rev() {
            match fs::rename(older(number), older(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        if keep == 0 {
            fs::remove_file(&self.path)?;
        } else {
            fs::rename(&self.path, older(1))?;
        }
        let next = Self::open(&self.path, None)?;
        (self.file, self.size, self.between_lines) = (next.file, next.size, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    fn rotated(folder: &TempDir, limit: u64, keep: u32) -> LogFile {
        let rotation = Rotation { limit: NonZeroU64::new(limit).unwrap(), keep };
        LogFile::open(folder.path().join("log"), Some(rotation)).unwrap()
    }

    /// The contents of the files, the oldest first.
    fn files(folder: &TempDir) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort_by_key(|path| {
            std::cmp::Reverse(path.extension().map(|age| age.to_str().unwrap().parse::<u32>().unwrap()))
        });
        names.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    #[test]
    fn a_full_file_is_rotated_and_the_oldest_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = rotated(&folder, 8, 2);
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n"] {
            log.write(line.as_bytes()).unwrap();
        }
        assert_eq!(files(&folder), ["three\n", "four\n", "five\n"]);
    }

    #[test]
    fn a_line_is_cut_only_where_it_is_longer_than_a_file() {
        let folder = tempfile::tempdir().unwrap();
        rotated(&folder, 8, 9).write(b"ab\ncd\nefghij\n0123456789abcdef\n").unwrap();
        assert_eq!(files(&folder), ["ab\ncd\n", "efghij\n", "01234567", "89abcdef", "\n"]);
    }

    #[test]
    fn a_line_that_comes_in_pieces_is_cut_where_its_end_does_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = rotated(&folder, 8, 9);
        for piece in ["one\ntw", "o\nthr", "ee\n"] {
            log.write(piece.as_bytes()).unwrap();
        }
        assert_eq!(files(&folder), ["one\ntwo\n", "three\n"]);
        log.write(b"f").unwrap();
        log.write(b"our\n").unwrap();
        assert_eq!(files(&folder), ["one\ntwo\n", "three\nfo", "ur\n"]);
    }

    #[test]
    fn a_file_is_continued_and_none_need_be_kept() {
        let folder = tempfile::tempdir().unwrap();
        rotated(&folder, 8, 0).write(b"one\n").unwrap();
        let mut log = rotated(&folder, 8, 0);
        log.write(b"two\n").unwrap();
        assert_eq!(files(&folder), ["one\ntwo\n"]);
        log.write(b"three\n").unwrap();
        assert_eq!(files(&folder), ["three\n"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn nothing_is_lost_and_no_file_is_too_long(pieces in proptest::collection::vec("[ab\n]{0,12}", 0..12), limit in 1u64..10) {
            let folder = tempfile::tempdir().unwrap();
            let mut log = rotated(&folder, limit, 150);
            pieces.iter().for_each(|piece| log.write(piece.as_bytes()).unwrap());
            let files = files(&folder);
            prop_assert!(files.iter().all(|file| file.len() as u64 <= limit), "{files:?}");
            prop_assert_eq!(files.concat(), pieces.concat());
        }
    }
}
