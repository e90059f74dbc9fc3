//! Atomic JSON files: written beside, synced and renamed into place, so that readers never see half a file, also after a
//! power cut.

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
    file.write_all(&serde_json::to_vec(value).map_err(io::Error::other)?)?;
    file.sync_data()
}

/// Reads a value back. The error names the file; it is [`io::ErrorKind::InvalidData`] where the file holds no such value.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let bytes = fs::read(path).map_err(|error| named(path, error.kind(), &error.to_string()))?;
    if bytes.is_empty() {
        return Err(named(path, io::ErrorKind::InvalidData, "it is empty"));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        let what = if error.is_eof() { "it is cut: " } else { "" };
        named(path, io::ErrorKind::InvalidData, &format!("{what}{error}"))
    })
}

fn named(path: &Path, kind: io::ErrorKind, problem: &str) -> io::Error {
    io::Error::new(kind, format!("{}: {problem}", path.display()))
}
