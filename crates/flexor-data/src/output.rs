//! Atomic output files.
//!
//! Data goes to a hidden file beside the target, which is renamed to the target at the end. Nothing is synced: data
//! that can be generated again need not survive a power cut. A terminating process removes its unfinished files first
//! ([`discard_unfinished`]); only a killed one leaves them behind.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;
use thiserror::Error;

/// The extension of unfinished files.
pub(crate) const UNFINISHED: &str = "half";

/// The unfinished files of this process. Creating or renaming one takes this lock. A dropped file stays in the set: no
/// other file uses its name.
static UNFINISHED_FILES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// While this exists, no output file is created or renamed.
#[derive(Debug)]
pub struct OutputsFrozen {
    _held: MutexGuard<'static, BTreeSet<PathBuf>>,
}

/// Removes all unfinished files of this process. For a process that ends now, whatever its threads do.
pub fn discard_unfinished() -> OutputsFrozen {
    let mut unfinished_files = unfinished_files();
    while let Some(half) = unfinished_files.pop_first() {
        let _ = std::fs::remove_file(half);
    }
    OutputsFrozen { _held: unfinished_files }
}

fn unfinished_files() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED_FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an existing file is kept or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The file stays, and nothing is written.
    Keep,
    Replace,
}

#[derive(Debug, Error)]
pub enum OutputError {
    /// The file exists already.
    #[error("{} exists already; choose another name, or replace it with --force", .0.display())]
    Exists(PathBuf),
    /// An I/O error.
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// An unfinished output file.
#[derive(Debug)]
pub struct Output {
    target: PathBuf,
    existing: Existing,
    file: BufWriter<NamedTempFile>,
}

impl Output {
    /// Creates a file, and its parent folders.
    ///
    /// # Errors
    ///
    /// The file exists and is to be kept, or an I/O error.
    pub fn create(target: &Path, existing: Existing) -> Result<Self, OutputError> {
        let refused = |source| OutputError::Io { path: target.to_owned(), source };
        if existing == Existing::Keep && target.exists() {
            return Err(OutputError::Exists(target.to_owned()));
        }
        // Only a regular file is replaced, never a device or a folder.
        if target.metadata().is_ok_and(|there| !there.is_file()) {
            return Err(refused(io::Error::new(io::ErrorKind::InvalidInput, "it exists and is no regular file")));
        }
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(refused)?;
        let mut unfinished_files = unfinished_files();
        let file = tempfile::Builder::new()
            .prefix(".")
            .suffix(&format!(".{UNFINISHED}"))
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(refused)?;
        unfinished_files.insert(file.path().to_owned());
        Ok(Self { target: target.to_owned(), existing, file: BufWriter::with_capacity(1 << 18, file) })
    }

    /// The target path.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// Renames the file to its target.
    ///
    /// # Errors
    ///
    /// A file with that name has appeared and is to be kept, or an I/O error.
    pub fn commit(self) -> Result<(), OutputError> {
        let Self { target, existing, file } = self;
        let refused = |source| OutputError::Io { path: target.clone(), source };
        let file = file.into_inner().map_err(|error| refused(error.into_error()))?;
        let mut unfinished_files = unfinished_files();
        let half = file.path().to_owned();
        let renamed = match existing {
            Existing::Keep => file.persist_noclobber(&target),
            Existing::Replace => file.persist(&target),
        };
        unfinished_files.remove(&half);
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
            assert!(refused.ends_with("it exists and is no regular file"), "{refused}");
        }
    }

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::create(&folder.path().join("file"), Existing::Keep).unwrap();
        output.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
