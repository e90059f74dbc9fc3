//! The folder of a laptop cluster.
//!
//! ```text
//! STATE/lock                 held by whoever runs the cluster
//! STATE/socket               where the verbs find it
//! STATE/limits.json          how the memory of its pods is limited
//! STATE/jobs/NS.NAME.json    a job, its plans and its status
//! STATE/objects/KIND.NS.NAME.json   a ConfigMap, Secret or PriorityClass
//! STATE/claims/NS/NAME/      the files of a PersistentVolumeClaim; they outlive jobs
//! STATE/pods/UID/            a pod
//! STATE/status/UID.json      what has become of it
//! STATE/masters/JOB_UID/     the journal of a job's master
//! STATE/masters/JOB_UID.faults.json  what is wrong on purpose with it, under --chaos
//! STATE/full                 is there while nothing can be written on purpose, under --chaos
//! STATE/events.jsonl         what has happened, one in a line; events.jsonl.1 what happened before
//! STATE/cluster.log          what a cluster in the background has to say; cluster.log.1 what it said before
//! ```

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::chaos::WriteFaults;
use crate::pods::folder::PodFolder;

/// The folder of a cluster.
#[derive(Debug, Clone)]
pub struct StateDir(PathBuf, WriteFaults);

/// Why a cluster cannot be run in its folder.
#[derive(Debug, Error)]
pub enum StateDirError {
    /// Another process runs it.
    #[error("a laptop cluster runs already in {}; `flexor apply -f FILE` gives it more jobs, `flexor local down` ends it, --state-dir DIR starts another beside it", .0.display())]
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
pub struct StateDirLock {
    _lock: File,
}

impl StateDir {
    /// The cluster in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into(), WriteFaults::default())
    }

    /// The same cluster, whose writes fail on purpose while there is a file `full` in it.
    #[must_use]
    pub fn with_write_faults(self) -> Self {
        let file = self.full();
        Self(self.0, WriteFaults::while_there_is(file))
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
    pub fn take(&self) -> Result<StateDirLock, StateDirError> {
        let refused = |source| StateDirError::Io { path: self.0.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(refused)?;
        for folder in ["jobs", "objects", "pods", "status", "masters"] {
            fs::create_dir_all(self.0.join(folder)).map_err(refused)?;
        }
        let lock = File::create(self.0.join("lock")).map_err(refused)?;
        match lock.try_lock() {
            Ok(()) => {
                // Where harm was being done on purpose, that ended with whoever did it.
                let _ = fs::remove_file(self.full());
                Ok(StateDirLock { _lock: lock })
            }
            Err(TryLockError::WouldBlock) => Err(StateDirError::Taken(self.0.clone())),
            Err(TryLockError::Error(source)) => Err(refused(source)),
        }
    }

    /// The logs of the last run that failed.
    pub fn logs_of_last_failure(&self) -> PathBuf {
        self.0.join("last-failure")
    }

    /// The folder of all jobs.
    pub fn jobs(&self) -> PathBuf {
        self.0.join("jobs")
    }

    /// The names of the jobs that are here. While nobody runs the cluster, one that was killed has left them.
    pub fn job_names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.jobs()).into_iter().flatten();
        let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> =
            files.filter_map(|file| Some(file.strip_suffix(".json")?.split_once('.')?.1.to_owned())).collect();
        names.sort();
        names
    }

    /// The folder of all ConfigMaps, Secrets and PriorityClasses.
    pub fn objects(&self) -> PathBuf {
        self.0.join("objects")
    }

    /// The files of a PersistentVolumeClaim.
    pub fn claim(&self, namespace: &str, name: &str) -> PathBuf {
        self.0.join("claims").join(namespace).join(name)
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

    /// What is wrong on purpose with a job's master.
    pub fn faults(&self, job_uid: &str) -> PathBuf {
        self.0.join("masters").join(format!("{job_uid}.faults.json"))
    }

    /// Is there while what is written here fails on purpose.
    pub fn full(&self) -> PathBuf {
        self.0.join("full")
    }

    /// Whether what is written here fails on purpose.
    pub fn write_faults(&self) -> &WriteFaults {
        &self.1
    }

    /// Where the verbs find the cluster.
    pub fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    /// What has happened.
    pub fn events(&self) -> PathBuf {
        self.0.join("events.jsonl")
    }

    /// What a cluster in the background has to say.
    pub fn log(&self) -> PathBuf {
        self.0.join("cluster.log")
    }

    /// How the memory of its pods is limited.
    pub fn limits(&self) -> PathBuf {
        self.0.join("limits.json")
    }

    /// A pod.
    pub fn pod(&self, uid: &str) -> PodFolder {
        PodFolder::new(&self.pods(), &self.status(), uid).with_write_faults(self.1.clone())
    }
}
