//! Checkpoint storage in a directory of a file system.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::storage::Storage;

/// The suffix of a file that is not complete yet.
const HALF: &str = ".half";
/// Smaller writes are buffered. Larger ones, which make up most of a checkpoint, bypass the buffer.
const BUFFER: usize = 16 << 10;
/// Bytes between two syncs to disk. One sync at the end would keep the disk busy for long and delay small durable
/// writes of others, such as the journal of a master on the same disk.
const SYNC_EVERY: usize = 32 << 20;

/// A directory with a subdirectory per checkpoint.
#[derive(Debug, Clone)]
pub struct DirectoryStorage {
    root: PathBuf,
}

impl DirectoryStorage {
    /// Stores checkpoints in `root`, which is created on the first write.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The path of a file. Valid names are two plain components with a slash between.
    fn path(&self, name: &str) -> io::Result<PathBuf> {
        match name.split_once('/') {
            Some((directory, file)) if is_plain(directory) && is_plain(file) => {
                Ok(self.root.join(directory).join(file))
            }
            Some(_) | None => Err(bad_name(name)),
        }
    }
}

fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !word.starts_with('.') && !word.is_empty() && word.chars().all(plain) && !word.ends_with(HALF)
}

fn bad_name(name: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("'{name}' is not a valid name of a checkpoint file"))
}

impl Storage for DirectoryStorage {
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let path = self.path(name)?;
        let directory = path.parent().unwrap_or(&self.root);
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut half = path.clone().into_os_string();
        half.push(HALF);
        let half = PathBuf::from(half);
        let written = write_and_sync(&half, write).and_then(|()| fs::rename(&half, &path));
        if let Err(error) = written {
            // A leftover file does no harm. The first error is the one to report.
            let _ = fs::remove_file(&half);
            // Fails, as intended, if the directory is not empty.
            let _ = half.parent().map(fs::remove_dir);
            return Err(error);
        }
        // The directory entries must survive a crash too.
        [directory, &self.root].into_iter().try_for_each(sync_directory)
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let path = self.path(name)?;
        let len = regular_file_size(&path)?;
        let mut file = File::open(path)?;
        if range.start > range.end || range.end > len {
            let message = format!("the file has {len} bytes, the range {}..{} is outside", range.start, range.end);
            return Err(io::Error::new(ErrorKind::UnexpectedEof, message));
        }
        let size = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        file.seek(SeekFrom::Start(range.start))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        regular_file_size(&self.path(name)?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for directory in names_in(&self.root)?.into_iter().filter(|directory| is_plain(directory)) {
            if self.root.join(&directory).is_dir() {
                let files = names_in(&self.root.join(&directory))?.into_iter().filter(|file| is_plain(file));
                names.extend(files.map(|file| format!("{directory}/{file}")));
            }
        }
        names.sort();
        Ok(names)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let path = self.path(name)?;
        ignore_missing(fs::remove_file(&path))?;
        path.parent().map_or(Ok(()), |directory| ignore_missing(sync_directory(directory)))
    }

    fn delete_directory(&self, directory: &str) -> io::Result<()> {
        match is_plain(directory) {
            true => ignore_missing(fs::remove_dir_all(self.root.join(directory))),
            false => Err(bad_name(directory)),
        }
    }
}

fn write_and_sync(path: &Path, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let created = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let file = SyncingFile { file: created?, unsynced: 0 };
    let mut writer = BufWriter::with_capacity(BUFFER, file);
    write(&mut writer)?;
    writer.into_inner().map_err(io::IntoInnerError::into_error)?.file.sync_all()
}

/// A file that is synced to disk while it is written.
struct SyncingFile {
    file: File,
    unsynced: usize,
}

impl Write for SyncingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&bytes[..bytes.len().min(SYNC_EVERY)])?;
        self.unsynced += written;
        if self.unsynced >= SYNC_EVERY {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The size of a file. A FIFO or a device in its place would be waited for without end when it is opened.
pub(crate) fn regular_file_size(path: &Path) -> io::Result<u64> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok(metadata.len())
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect()
}

fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_appears_complete_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let directory = DirectoryStorage::new(home.path().join("checkpoints"));
        assert_eq!(directory.list().unwrap(), [""; 0]);
        directory.put("a/x", &mut |file| file.write_all(b"hello")).unwrap();
        let fails = directory.put("a/y", &mut |file| {
            file.write_all(b"half of it")?;
            Err(io::Error::other("the disk is full"))
        });
        assert_eq!(fails.unwrap_err().to_string(), "the disk is full");
        assert_eq!(directory.list().unwrap(), ["a/x"]);
        let mode = |path: &str| fs::metadata(home.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(["checkpoints", "checkpoints/a", "checkpoints/a/x"].map(mode), [0o700, 0o700, 0o600]);
        assert_eq!(fs::read_dir(home.path().join("checkpoints/a")).unwrap().count(), 1);
        assert_eq!((directory.size("a/x").unwrap(), directory.read("a/x", 1..4).unwrap()), (5, b"ell".to_vec()));
        assert!(directory.read("a/x", 1..9).unwrap_err().to_string().contains("the file has 5 bytes"));
        directory.delete("a/x").unwrap();
        directory.delete("a/x").unwrap();
        directory.delete_directory("a").unwrap();
        directory.delete_directory("a").unwrap();
        assert_eq!(directory.list().unwrap(), [""; 0]);
    }

    #[test]
    fn names_cannot_escape_the_directory() {
        let home = tempfile::tempdir().unwrap();
        let directory = DirectoryStorage::new(home.path());
        for name in ["../x", "a/../x", "a", "/etc/passwd", "a/b/c", "a/.hidden", "a/x.half"] {
            assert_eq!(directory.size(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
        }
        assert!(directory.delete_directory("..").is_err());
    }
}
