//! A folder of the cache with finished results, each made once, however many processes ask at the same time.
//!
//! A folder named by the key is only ever created by renaming a finished one, so its presence means that it is
//! complete. A lock makes the second caller wait instead of working too; the kernel releases it when its holder dies.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::ToolsError;

/// How many results of one shelf stay in the cache: the one in use and the one before it (another branch).
const KEPT: usize = 2;

/// The folder `key` on a shelf. If it is not there, `make` makes it below the folder that it gets, and returns its path.
pub(crate) fn ensure<E: From<ToolsError>>(
    shelf: &Path,
    key: &str,
    make: impl FnOnce(&Path) -> Result<PathBuf, E>,
) -> Result<PathBuf, E> {
    let destination = shelf.join(key);
    if destination.is_dir() {
        return Ok(destination);
    }
    fs::create_dir_all(shelf).map_err(io("create", shelf))?;
    let lock_path = shelf.join("lock");
    let lock = File::create(&lock_path).map_err(io("create", &lock_path))?;
    lock.lock().map_err(io("lock", &lock_path))?;
    if destination.is_dir() {
        return Ok(destination);
    }
    let unfinished = tempfile::Builder::new().prefix("unfinished-").tempdir_in(shelf).map_err(io("write to", shelf))?;
    let made = make(unfinished.path())?;
    fs::rename(&made, &destination).map_err(io("move into place", &destination))?;
    prune(shelf, &destination);
    Ok(destination)
}

/// Removes results beyond the newest few, and what was left by killed processes. Only the holder of the lock calls it,
/// so no unfinished folder here is in use.
fn prune(shelf: &Path, in_use: &Path) {
    let Ok(entries) = fs::read_dir(shelf) else { return };
    let mut finished: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with("unfinished-") {
            let _ = fs::remove_dir_all(path);
        } else if path != in_use {
            let made = entry.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            finished.push((made, path));
        }
    }
    finished.sort();
    for (_, path) in finished.iter().rev().skip(KEPT - 1) {
        let _ = fs::remove_dir_all(path);
    }
}

/// Names the step that failed and its path.
pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ToolsError {
    let path = path.to_owned();
    move |source| ToolsError::Io { doing: format!("{doing} {}", path.display()), source }
}
