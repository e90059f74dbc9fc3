//! Files that others read while they are written: put in place by renaming, so that they are always whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How the name of a file ends that is not whole yet.
pub(crate) const HALF: &str = "half";

/// Writes a value as JSON, for its owner alone: variables may come from Secrets.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let half = path.with_extension(HALF);
    let written = try_write(&half, value).and_then(|()| fs::rename(&half, path));
    if written.is_err() {
        let _ = fs::remove_file(half);
    }
    written
}

fn try_write(half: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(half)?;
    file.write_all(&serde_json::to_vec(value).map_err(io::Error::other)?)
}

/// Reads a value back.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::other)
}
