//! The files of a pod. Whatever is read by others is put in place by renaming, so that it is always whole.
//!
//! ```text
//! PODS/UID/pod.json            what to run
//! PODS/UID/logs/CONTAINER.log  what it prints
//! PODS/UID/errors/CONTAINER    what it leaves behind when it fails
//! STATUS/UID.json              what has become of it: one folder for all, so that one watch sees every change
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::plan::PodPlan;
use super::status::PodStatus;

/// The folder of a pod.
#[derive(Debug, Clone)]
pub struct PodFolder {
    path: PathBuf,
    status: PathBuf,
}

impl PodFolder {
    /// The folder of the pod of this uid, in the folder of all pods, with the folder of all statuses.
    pub fn new(pods: &Path, status: &Path, uid: &str) -> Self {
        Self { path: pods.join(uid), status: status.join(format!("{uid}.json")) }
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

    /// Where a container leaves why it failed.
    pub fn error_file(&self, container: &str) -> PathBuf {
        self.path.join("errors").join(container)
    }

    /// Makes the folder of a pod that is to be run.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn create(&self, plan: &PodPlan) -> io::Result<()> {
        for folder in ["logs", "errors"] {
            fs::create_dir_all(self.path.join(folder))?;
        }
        write_whole(&self.path.join("pod.json"), plan)
    }

    /// What is to be run.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn plan(&self) -> io::Result<PodPlan> {
        read_whole(&self.path.join("pod.json"))
    }

    /// Writes down what has become of it.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn set_status(&self, status: &PodStatus) -> io::Result<()> {
        write_whole(&self.status, status)
    }

    /// What has become of it; nothing before its parent has written anything.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn status(&self) -> io::Result<Option<PodStatus>> {
        match read_whole(&self.status) {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
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
        gone(fs::remove_file(&self.status))
    }
}

fn write_whole(path: &Path, value: &impl Serialize) -> io::Result<()> {
    // The process is part of the name: an old parent and a new one may write at the same time.
    let half = path.with_extension(format!("json.{}", std::process::id()));
    fs::write(&half, serde_json::to_vec(value).map_err(io::Error::other)?)?;
    fs::rename(&half, path)
}

fn read_whole<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::other)
}
