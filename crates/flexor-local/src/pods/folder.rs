//! The files of a pod. Files that other processes read are put in place by renaming, so that readers see whole files.
//!
//! ```text
//! PODS/UID/pod.json            the plan of its supervisor
//! PODS/UID/logs/CONTAINER.log  the container's output
//! PODS/UID/errors/CONTAINER    the container's error file
//! PODS/UID/volumes/NAME        emptyDir volumes, and files of ConfigMaps and Secrets
//! STATUS/UID.json              its status: one folder for all pods, so that one watch sees every change
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::plan::PodPlan;
use super::status::PodStatus;
use crate::atomic_file;
use crate::chaos::WriteFaults;
use crate::state_dir::create_private;

#[derive(Debug, Clone)]
pub struct PodFolder {
    path: PathBuf,
    status: PathBuf,
    writes: WriteFaults,
}

impl PodFolder {
    /// The folder of one pod. `pods` holds the folders of all pods, `status` all status files.
    pub fn new(pods: &Path, status: &Path, uid: &str) -> Self {
        let status = status.join(format!("{uid}.json"));
        Self { path: pods.join(uid), status, writes: WriteFaults::default() }
    }

    /// The same folder, with injected write faults.
    #[must_use]
    pub fn with_write_faults(self, writes: WriteFaults) -> Self {
        Self { writes, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn status_path(&self) -> &Path {
        &self.status
    }

    pub fn log(&self, container: &str) -> PathBuf {
        self.path.join("logs").join(format!("{container}.log"))
    }

    /// The folder of a volume that belongs to the pod.
    pub fn volume(&self, name: &str) -> PathBuf {
        self.path.join("volumes").join(name)
    }

    /// The file in which a container leaves why it failed.
    pub fn error_file(&self, container: &str) -> PathBuf {
        self.path.join("errors").join(container)
    }

    /// Creates the folder of a pod that has no plan yet.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn begin(&self) -> io::Result<()> {
        ["logs", "errors"].iter().try_for_each(|folder| create_private(&self.path.join(folder)))
    }

    /// Writes the supervisor's plan.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn create(&self, plan: &PodPlan) -> io::Result<()> {
        self.begin()?;
        atomic_file::write(&self.path.join("pod.json"), plan)
    }

    /// Reads the supervisor's plan.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn plan(&self) -> io::Result<PodPlan> {
        atomic_file::read(&self.path.join("pod.json"))
    }

    /// Whether there is a plan.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn has_plan(&self) -> io::Result<bool> {
        self.path.join("pod.json").try_exists()
    }

    /// Removes the plan: no supervisor runs it.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn take_back_plan(&self) -> io::Result<()> {
        fs::remove_file(self.path.join("pod.json"))
    }

    /// Writes the status.
    ///
    /// # Errors
    ///
    /// The disk refuses, or the folder is gone because the cluster has removed the pod.
    pub fn set_status(&self, status: &PodStatus) -> io::Result<()> {
        fs::metadata(&self.path)?;
        self.writes.check()?;
        atomic_file::write(&self.status, status)
    }

    /// Reads the status; nothing before the supervisor has written one.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn status(&self) -> io::Result<Option<PodStatus>> {
        match atomic_file::read(&self.status) {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a pod whose supervisor has not written a status, and returns whether it did. A supervisor writes its
    /// status before it starts anything and needs the folder for that, so one that comes late runs nothing.
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

    /// Removes the folder and the status.
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
        gone(fs::remove_file(self.status.with_extension(atomic_file::HALF)))?;
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

    fn created(state_dir: &Path) -> PodFolder {
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
    fn a_pod_with_a_status_is_not_removed() {
        let state_dir = tempfile::tempdir().unwrap();
        let folder = created(state_dir.path());
        folder.set_status(&status()).unwrap();
        assert!(!folder.remove_unless_begun().unwrap());
        assert_eq!((folder.plan().is_ok(), folder.status().unwrap()), (true, Some(status())));
    }

    #[test]
    fn a_late_supervisor_cannot_write_a_status() {
        let state_dir = tempfile::tempdir().unwrap();
        let folder = created(state_dir.path());
        assert!(folder.remove_unless_begun().unwrap());
        assert!(folder.set_status(&status()).is_err());
        assert_eq!(fs::read_dir(state_dir.path().join("pods")).unwrap().count(), 0);
    }

    #[test]
    fn removing_twice_is_no_error() {
        let state_dir = tempfile::tempdir().unwrap();
        let folder = created(state_dir.path());
        folder.set_status(&status()).unwrap();
        for _ in 0..2 {
            folder.remove().unwrap();
            assert_eq!(folder.status().unwrap(), None);
        }
    }
}
