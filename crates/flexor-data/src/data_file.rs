//! A file as it was when it was opened.
//!
//! Files are opened anew for each range, so that a dataset may have more of them than a process may hold open. Each time
//! it is checked that the file is what it was: what is known about its inside would be wrong otherwise.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::DataError;

/// A file, its size and its last change.
#[derive(Debug)]
pub(crate) struct DataFile {
    path: PathBuf,
    size: u64,
    changed: Option<SystemTime>,
}

impl DataFile {
    /// Takes note of a file.
    pub(crate) fn open(path: &Path) -> Result<(Self, File), DataError> {
        let file = File::open(path).map_err(DataError::io(path))?;
        let metadata = file.metadata().map_err(DataError::io(path))?;
        let noted = Self { path: path.to_owned(), size: metadata.len(), changed: metadata.modified().ok() };
        Ok((noted, file))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it has.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Opens it once more.
    pub(crate) fn again(&self) -> Result<File, DataError> {
        let file = File::open(&self.path).map_err(DataError::io(&self.path))?;
        self.check(&file)?;
        Ok(file)
    }

    /// Whether it is still what it was.
    pub(crate) fn check(&self, file: &File) -> Result<(), DataError> {
        let metadata = file.metadata().map_err(DataError::io(&self.path))?;
        if metadata.len() == self.size && metadata.modified().ok() == self.changed {
            return Ok(());
        }
        Err(DataError::Changed { path: self.path.clone(), was: self.size, now: metadata.len() })
    }
}
