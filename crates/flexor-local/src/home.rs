//! The folder of a laptop cluster.
//!
//! ```text
//! HOME/lock                 held by whoever runs the cluster
//! HOME/socket               where the verbs find it
//! HOME/jobs/NS.NAME.json    a job, its plans and its status
//! HOME/pods/UID/            a pod
//! HOME/status/UID.json      what has become of it
//! HOME/masters/JOB_UID/     the journal of a job's master
//! ```

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::pods::folder::PodFolder;

/// The folder of a cluster.
#[derive(Debug, Clone)]
pub struct Home(PathBuf);

/// Why a cluster cannot be run in its folder.
#[derive(Debug, Error)]
pub enum HomeError {
    /// Another process runs it.
    #[error("a laptop cluster runs already in {}; `flexor apply -f FILE` gives it more jobs, `flexor local down` ends it", .0.display())]
    Taken(PathBuf),
    /// The disk refuses.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Held while a process runs the cluster.
#[derive(Debug)]
pub struct Tenancy {
    _lock: File,
}

impl Home {
    /// The cluster in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the folder if it is missing, for its owner alone, and takes it.
    ///
    /// # Errors
    ///
    /// Somebody else has it, or the disk refuses.
    pub fn take(&self) -> Result<Tenancy, HomeError> {
        let refused = |source| HomeError::Io { path: self.0.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(refused)?;
        for folder in ["jobs", "pods", "status", "masters"] {
            fs::create_dir_all(self.0.join(folder)).map_err(refused)?;
        }
        let lock = File::create(self.0.join("lock")).map_err(refused)?;
        match lock.try_lock() {
            Ok(()) => Ok(Tenancy { _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(HomeError::Taken(self.0.clone())),
            Err(TryLockError::Error(source)) => Err(refused(source)),
        }
    }

    /// The folder of all jobs.
    pub fn jobs(&self) -> PathBuf {
        self.0.join("jobs")
    }

    /// The folder of all pods.
    pub fn pods(&self) -> PathBuf {
        self.0.join("pods")
    }

    /// The folder of what has become of them.
    pub fn status(&self) -> PathBuf {
        self.0.join("status")
    }

    /// The journal of a job's master.
    pub fn master(&self, job_uid: &str) -> PathBuf {
        self.0.join("masters").join(job_uid)
    }

    /// Where the verbs find the cluster.
    pub fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    /// A pod.
    pub fn pod(&self, uid: &str) -> PodFolder {
        PodFolder::new(&self.pods(), &self.status(), uid)
    }
}
