//! Atomic JSON files: written beside and renamed into place, so that readers never see half a file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The extension of a file that is being written.
pub(crate) const HALF: &str = "half";

/// Writes a value as JSON, for its owner alone: variables may come from Secrets.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let temporary = path.with_extension(HALF);
    let written = try_write(&temporary, value).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(temporary);
    }
    written
}

fn try_write(temporary: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
    file.write_all(&serde_json::to_vec(value).map_err(io::Error::other)?)
}

/// Reads a value back.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::other)
}
