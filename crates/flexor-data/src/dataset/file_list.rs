//! Lists the files of a dataset.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::format::Format;
use crate::idx;
use crate::output::UNFINISHED;

/// The files in order, and their common format.
pub(super) fn files(paths: &[PathBuf], format: Option<Format>) -> Result<(Format, Vec<PathBuf>), DataError> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() { files.extend(files_of(path)?) } else { files.push(path.clone()) }
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = files.iter().find(|path| !seen.insert(*path)) {
        return Err(DataError::Twice(twice.clone()));
    }
    let Some(first) = files.first() else {
        return Err(DataError::Nothing(paths.first().cloned().unwrap_or_default()));
    };
    let first_format = format.map_or_else(|| Format::of(first), Ok)?;
    for other in &files[1..] {
        let other_format = format.map_or_else(|| Format::of(other), Ok)?;
        if other_format != first_format {
            let (first, other) = (first.clone(), other.clone());
            return Err(DataError::Mixed { first, first_format, other, other_format });
        }
    }
    Ok((first_format, files))
}

/// The data files of a folder, sorted by name. Subfolders are ignored.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(DataError::io(folder))? {
        let path = entry.map_err(DataError::io(folder))?.path();
        if path.is_file() && is_data(&path) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(DataError::Nothing(folder.to_owned())) } else { Ok(files) }
}

/// Whether a file of a folder is data.
fn is_data(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    !is_hidden && !["json", "md", UNFINISHED].contains(&extension) && !idx::belongs_to_images(path)
}
