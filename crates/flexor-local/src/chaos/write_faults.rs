//! Write faults of the cluster's own disk: every write of the state directory asks first whether it has to fail.
//!
//! Writes fail while a file exists, so that the pods' supervisors see it too, which are processes of their own.

use std::fs;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

#[derive(Debug, Clone, Default)]
pub struct WriteFaults(Option<PathBuf>);

impl WriteFaults {
    /// Writes fail while this file exists. By default they never do.
    #[must_use]
    pub fn while_there_is(file: PathBuf) -> Self {
        Self(Some(file))
    }

    /// Called before every write.
    ///
    /// # Errors
    ///
    /// `ENOSPC` while the fault is active.
    pub fn check(&self) -> io::Result<()> {
        match &self.0 {
            Some(file) if file.exists() => Err(Errno::ENOSPC.into()),
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn begin(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|file| fs::write(file, ""))
    }

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
    fn writes_of_all_processes_fail_until_the_fault_ends() {
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
    fn without_faults_no_write_fails() {
        let faults = WriteFaults::default();
        faults.begin().unwrap();
        faults.check().unwrap();
        faults.end().unwrap();
    }
}
