//! Files that are written whole or not at all.
//!
//! What is written goes to a hidden file beside the target, which takes the target's name at the end. Nothing is synced:
//! data that can be made again need not survive a power cut. A process that is told to end gives its files up first
//! ([`give_up`]); only one that is killed leaves them behind.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;
use thiserror::Error;

/// How the name of a file ends that is not whole yet.
pub(crate) const HALF: &str = "half";

/// Files of this process that are not whole yet. Whoever makes or names one holds this. One that was dropped stays in it:
/// its name is used by nobody else.
static HALVES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// As long as it is there no file is made and none gets its name.
#[derive(Debug)]
pub struct GivenUp {
    _held: MutexGuard<'static, BTreeSet<PathBuf>>,
}

/// Removes all files of this process that are not whole. For a process that ends now, whatever its threads are at.
pub fn give_up() -> GivenUp {
    let mut halves = halves();
    while let Some(half) = halves.pop_first() {
        let _ = std::fs::remove_file(half);
    }
    GivenUp { _held: halves }
}

fn halves() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    HALVES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and nothing is written.
    Keep,
    /// It is replaced.
    Replace,
}

/// Why a file was not written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// It is there already.
    #[error("{} is there already; choose another name, or replace it with --force", .0.display())]
    Exists(PathBuf),
    /// The system refuses.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A file that is being written.
#[derive(Debug)]
pub struct Output {
    target: PathBuf,
    existing: Existing,
    file: BufWriter<NamedTempFile>,
}

impl Output {
    /// Begins a file. Folders on the way to it are made.
    ///
    /// # Errors
    ///
    /// It is there and to be kept, or the system refuses.
    pub fn create(target: &Path, existing: Existing) -> Result<Self, OutputError> {
        let refused = |source| OutputError::Io { path: target.to_owned(), source };
        if existing == Existing::Keep && target.exists() {
            return Err(OutputError::Exists(target.to_owned()));
        }
        // A file takes the place of what is there; a device or a folder is not to be replaced by one.
        if target.metadata().is_ok_and(|there| !there.is_file()) {
            return Err(refused(io::Error::new(io::ErrorKind::InvalidInput, "it is there, and no file")));
        }
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(refused)?;
        let mut halves = halves();
        let file = tempfile::Builder::new()
            .prefix(".")
            .suffix(&format!(".{HALF}"))
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(refused)?;
        halves.insert(file.path().to_owned());
        Ok(Self { target: target.to_owned(), existing, file: BufWriter::with_capacity(1 << 18, file) })
    }

    /// The name that the file will have.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// Gives the file its name.
    ///
    /// # Errors
    ///
    /// A file of that name has come meanwhile and is to be kept, or the system refuses.
    pub fn commit(self) -> Result<(), OutputError> {
        let Self { target, existing, file } = self;
        let refused = |source| OutputError::Io { path: target.clone(), source };
        let file = file.into_inner().map_err(|error| refused(error.into_error()))?;
        let mut halves = halves();
        let half = file.path().to_owned();
        let renamed = match existing {
            Existing::Keep => file.persist_noclobber(&target),
            Existing::Replace => file.persist(&target),
        };
        halves.remove(&half);
        match renamed {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(OutputError::Exists(target)),
            Err(error) => Err(refused(error.error)),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, existing: Existing, text: &str) -> Result<(), OutputError> {
        let mut output = Output::create(path, existing)?;
        output.write_all(text.as_bytes()).unwrap();
        output.commit()
    }

    #[test]
    fn a_file_is_kept_unless_it_is_to_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/file.csv");
        write(&path, Existing::Keep, "first").unwrap();
        assert!(matches!(write(&path, Existing::Keep, "second"), Err(OutputError::Exists(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
        write(&path, Existing::Replace, "third").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "third");
    }

    #[test]
    fn a_folder_or_a_device_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/null")] {
            let refused = write(path, Existing::Replace, "text").unwrap_err().to_string();
            assert!(refused.ends_with("it is there, and no file"), "{refused}");
        }
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::create(&folder.path().join("file"), Existing::Keep).unwrap();
        output.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
