//! A log file, and the older ones beside it where it may not grow for ever.
//!
//! `log` is written, `log.1` is what it was before, `log.2` what that was before. A file is full when the next line would
//! not fit. A line is written as it comes, so it is cut where its beginning was written and its end does not fit; a line
//! that comes whole is cut only where it is longer than a whole file. Whoever reads along sees the file renamed under
//! them and a new one in its place, never a file that gets shorter.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;

/// When a log file is put aside, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// How many bytes a file may have.
    pub limit: NonZeroU64,
    /// How many older files are kept.
    pub keep: u32,
}

/// A log file that could not be written any more. Its program went on, and what it printed from then on is nowhere.
#[derive(Debug)]
pub struct LogCut {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

/// A file that output is appended to.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    rotation: Option<Rotation>,
    /// Of the file, in bytes; not counted where nobody asks.
    size: u64,
    /// Whether what was written last ended a line.
    between_lines: bool,
    /// Who wants to hear that it is cut.
    told: Option<mpsc::UnboundedSender<LogCut>>,
}

impl LogFile {
    /// Opens a file, to go on where it ends; without a rotation it grows as it must.
    ///
    /// # Errors
    ///
    /// It cannot be opened or made.
    pub fn open(path: impl Into<PathBuf>, rotation: Option<Rotation>) -> io::Result<Self> {
        let path = path.into();
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, rotation, size, between_lines: true, told: None })
    }

    /// The same, with somebody who is told when it cannot be written any more.
    #[must_use]
    pub fn telling(self, told: mpsc::UnboundedSender<LogCut>) -> Self {
        Self { told: Some(told), ..self }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// It could not be written, and is given up.
    pub(super) fn cut(self, error: io::Error) {
        if let Some(told) = self.told {
            // Whoever wanted to hear of it may be gone.
            _ = told.send(LogCut { path: self.path, error });
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
                self.put_aside(rotation.keep)?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// How many of `bytes` go into this file, where it has so much room: all, or whole lines, or what can be had of a
    /// line that was begun in it or has a file to itself.
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

    fn put_aside(&mut self, keep: u32) -> io::Result<()> {
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
    fn a_full_file_is_put_aside_and_the_oldest_goes() {
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
