//! The files of a pod. Whatever is read by others is put in place by renaming, so that it is always whole.
//!
//! ```text
//! PODS/UID/pod.json            what to run
//! PODS/UID/logs/CONTAINER.log  what it prints
//! PODS/UID/errors/CONTAINER    what it leaves behind when it fails
//! PODS/UID/volumes/NAME        what its containers share, and files of ConfigMaps and Secrets
//! STATUS/UID.json              what has become of it: one folder for all, so that one watch sees every change
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::plan::PodPlan;
use super::status::PodStatus;
use crate::chaos::WriteFaults;
use crate::whole_file;

/// The folder of a pod.
#[derive(Debug, Clone)]
pub struct PodFolder {
    path: PathBuf,
    status: PathBuf,
    writes: WriteFaults,
}

impl PodFolder {
    /// The folder of the pod of this uid, in the folder of all pods, with the folder of all statuses.
    pub fn new(pods: &Path, status: &Path, uid: &str) -> Self {
        let status = status.join(format!("{uid}.json"));
        Self { path: pods.join(uid), status, writes: WriteFaults::default() }
    }

    /// The same folder, in which writes may fail on purpose.
    #[must_use]
    pub fn with_write_faults(self, writes: WriteFaults) -> Self {
        Self { writes, ..self }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its status is.
    pub fn status_path(&self) -> &Path {
        &self.status
    }

    /// The log of a container.
    pub fn log(&self, container: &str) -> PathBuf {
        self.path.join("logs").join(format!("{container}.log"))
    }

    /// A volume that is the pod's own.
    pub fn volume(&self, name: &str) -> PathBuf {
        self.path.join("volumes").join(name)
    }

    /// Where a container leaves why it failed.
    pub fn error_file(&self, container: &str) -> PathBuf {
        self.path.join("errors").join(container)
    }

    /// Makes the folder of a pod that is wanted.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn begin(&self) -> io::Result<()> {
        ["logs", "errors"].iter().try_for_each(|folder| fs::create_dir_all(self.path.join(folder)))
    }

    /// Writes down what is to be run.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn create(&self, plan: &PodPlan) -> io::Result<()> {
        self.begin()?;
        whole_file::write(&self.path.join("pod.json"), plan)
    }

    /// What is to be run.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn plan(&self) -> io::Result<PodPlan> {
        whole_file::read(&self.path.join("pod.json"))
    }

    /// Whether it has been said what is to be run.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn has_plan(&self) -> io::Result<bool> {
        self.path.join("pod.json").try_exists()
    }

    /// Nothing is to be run yet after all.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn take_back_plan(&self) -> io::Result<()> {
        fs::remove_file(self.path.join("pod.json"))
    }

    /// Writes down what has become of it.
    ///
    /// # Errors
    ///
    /// The disk refuses, or the folder is gone: nobody knows of this pod any more.
    pub fn set_status(&self, status: &PodStatus) -> io::Result<()> {
        fs::metadata(&self.path)?;
        self.writes.check()?;
        whole_file::write(&self.status, status)
    }

    /// What has become of it; nothing before its parent has written anything.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn status(&self) -> io::Result<Option<PodStatus>> {
        match whole_file::read(&self.status) {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a pod whose parent has written nothing. Whether that is so: a parent writes before it starts anything, and
    /// starts nothing without the folder, so one that is late runs nothing.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn remove_unless_begun(&self) -> io::Result<bool> {
        let aside = self.path.with_extension("gone");
        fs::rename(&self.path, &aside)?;
        if self.status.try_exists()? {
            fs::rename(aside, &self.path)?;
            return Ok(false);
        }
        fs::remove_dir_all(aside)?;
        Ok(true)
    }

    /// Removes everything of it.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn remove(&self) -> io::Result<()> {
        let gone = |result: io::Result<()>| match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        gone(fs::remove_dir_all(&self.path))?;
        gone(fs::remove_file(self.status.with_extension(whole_file::HALF)))?;
        gone(fs::remove_file(&self.status))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::super::plan::RestartPolicy;
    use super::super::status::PodPhase;
    use super::*;

    fn status() -> PodStatus {
        let containers = Vec::new();
        PodStatus {
            uid: "u".to_owned(),
            supervisor: (1, 1),
            phase: PodPhase::Pending,
            reason: None,
            message: None,
            containers,
        }
    }

    fn made(state_dir: &Path) -> PodFolder {
        let folder = PodFolder::new(&state_dir.join("pods"), state_dir, "u");
        let plan = PodPlan {
            name: "p".to_owned(),
            uid: "u".to_owned(),
            address: Ipv4Addr::LOCALHOST,
            init: Vec::new(),
            containers: Vec::new(),
            restart: RestartPolicy::Never,
            grace: Duration::from_millis(1500),
        };
        folder.create(&plan).unwrap();
        assert_eq!(folder.plan().unwrap(), plan);
        folder
    }

    #[test]
    fn a_pod_that_has_begun_is_not_removed_by_mistake() {
        let state_dir = tempfile::tempdir().unwrap();
        let folder = made(state_dir.path());
        folder.set_status(&status()).unwrap();
        assert!(!folder.remove_unless_begun().unwrap());
        assert_eq!((folder.plan().is_ok(), folder.status().unwrap()), (true, Some(status())));
    }

    #[test]
    fn a_parent_that_is_late_cannot_say_that_it_has_begun() {
        let state_dir = tempfile::tempdir().unwrap();
        let folder = made(state_dir.path());
        assert!(folder.remove_unless_begun().unwrap());
        assert!(folder.set_status(&status()).is_err());
        assert_eq!(fs::read_dir(state_dir.path().join("pods")).unwrap().count(), 0);
    }

    #[test]
    fn what_is_removed_twice_is_gone() {
        let state_dir = tempfile::tempdir().unwrap();
        let folder = made(state_dir.path());
        folder.set_status(&status()).unwrap();
        for _ in 0..2 {
            folder.remove().unwrap();
            assert_eq!(folder.status().unwrap(), None);
        }
    }
}
