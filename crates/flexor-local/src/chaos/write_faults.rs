//! The cluster's own disk, full on purpose: whoever writes something down asks first whether that is to fail.
//!
//! It is as long as a file is there, so that the parents of pods see it too, which are processes of their own.

use std::fs;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

/// Whether writes fail.
#[derive(Debug, Clone, Default)]
pub struct WriteFaults(Option<PathBuf>);

impl WriteFaults {
    /// Writes fail while this file is there. By default they never do.
    #[must_use]
    pub fn while_there_is(file: PathBuf) -> Self {
        Self(Some(file))
    }

    /// What a write answers first: that there is no room, while that is so.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn check(&self) -> io::Result<()> {
        match &self.0 {
            Some(file) if file.exists() => Err(Errno::ENOSPC.into()),
            Some(_) | None => Ok(()),
        }
    }

    /// Writes fail from here on.
    pub(crate) fn begin(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|file| fs::write(file, ""))
    }

    /// Writes do not fail any more.
    pub(crate) fn end(&self) -> io::Result<()> {
        match self.0.as_ref().map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_fail_for_everybody_until_that_ends() {
        let folder = tempfile::tempdir().unwrap();
        let [faults, of_another_process] = [0; 2].map(|_| WriteFaults::while_there_is(folder.path().join("full")));
        faults.begin().unwrap();
        assert_eq!(of_another_process.check().unwrap_err().kind(), io::ErrorKind::StorageFull);
        for _ in 0..2 {
            faults.end().unwrap();
            of_another_process.check().unwrap();
        }
    }

    #[test]
    fn where_no_harm_is_done_nothing_ever_fails() {
        let faults = WriteFaults::default();
        faults.begin().unwrap();
        faults.check().unwrap();
        faults.end().unwrap();
    }
}
