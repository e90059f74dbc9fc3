//! A file, checked for changes whenever it is opened again.
//!
//! Files are opened anew for each range, so a dataset may have more files than a process may hold open. Each time the
//! size and modification time are compared, because an index of a changed file would be wrong.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::DataError;

/// A file's path, size and modification time.
#[derive(Debug)]
pub(crate) struct DataFile {
    path: PathBuf,
    size: u64,
    changed: Option<SystemTime>,
}

impl DataFile {
    /// Opens a file and remembers its size and modification time.
    pub(crate) fn open(path: &Path) -> Result<(Self, File), DataError> {
        let file = File::open(path).map_err(DataError::io(path))?;
        let metadata = file.metadata().map_err(DataError::io(path))?;
        let noted = Self { path: path.to_owned(), size: metadata.len(), changed: metadata.modified().ok() };
        Ok((noted, file))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Opens the file again.
    pub(crate) fn again(&self) -> Result<File, DataError> {
        let file = File::open(&self.path).map_err(DataError::io(&self.path))?;
        self.check(&file)?;
        Ok(file)
    }

    /// Fails if the file has changed.
    pub(crate) fn check(&self, file: &File) -> Result<(), DataError> {
        let metadata = file.metadata().map_err(DataError::io(&self.path))?;
        if metadata.len() == self.size && metadata.modified().ok() == self.changed {
            return Ok(());
        }
        Err(DataError::Changed { path: self.path.clone(), was: self.size, now: metadata.len() })
    }
}
