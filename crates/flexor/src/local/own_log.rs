//! The log of `flexor local up`'s background process: everything that it prints, panics included. Its caller asks
//! regularly for the rotation.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::unistd::{dup2_stderr, dup2_stdout};

/// A larger log becomes `NAME.log.1`, in the place of the one before it.
const MOST_BYTES: u64 = 1 << 20;

pub struct OwnLog {
    path: PathBuf,
    file: File,
}

impl OwnLog {
    /// Opens the log for appending.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = opened.with_context(|| format!("the log {} cannot be written", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Redirects standard output and standard error of this process to the log.
    pub fn redirect_output(&self) -> anyhow::Result<()> {
        dup2_stdout(&self.file)
            .and_then(|()| dup2_stderr(&self.file))
            .context("the output cannot be redirected to the log")
    }

    pub fn rotate_if_full(&mut self) -> anyhow::Result<()> {
        if self.file.metadata().is_ok_and(|metadata| metadata.len() > MOST_BYTES) {
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
            *self = Self::open(&self.path)?;
            self.redirect_output()?;
        }
        Ok(())
    }
}
