//! The log of a process that has no terminal: whatever it prints, panics included, in a file that is put aside when full.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::unistd::{dup2_stderr, dup2_stdout};

/// A log that is larger is put aside, in the place of the one that was before.
const LARGEST: u64 = 1 << 20;

/// The log.
pub struct OwnLog {
    path: PathBuf,
    file: File,
}

impl OwnLog {
    /// Opens it, behind what others have written.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = opened.with_context(|| format!("the log {} cannot be written", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// From here on all that this process prints goes there.
    pub fn take_over(&self) -> anyhow::Result<()> {
        dup2_stdout(&self.file).and_then(|()| dup2_stderr(&self.file)).context("the log cannot be written")
    }

    /// Puts it aside if it is full.
    pub fn turn_page(&mut self) -> anyhow::Result<()> {
        if self.file.metadata().is_ok_and(|known| known.len() > LARGEST) {
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
            *self = Self::open(&self.path)?;
            self.take_over()?;
        }
        Ok(())
    }
}
