//! The state directory of a laptop cluster.
//!
//! ```text
//! STATE/lock                 locked by the process that runs the cluster
//! STATE/socket               the API
//! STATE/limits.json          the way in which the memory of pods is limited
//! STATE/jobs/NS.NAME.json    a job, its plans and its status
//! STATE/objects/KIND.NS.NAME.json   a ConfigMap, Secret or PriorityClass
//! STATE/claims/NS/NAME/      the files of a PersistentVolumeClaim; they outlive jobs
//! STATE/pods/UID/            a pod
//! STATE/status/UID.json      the status that its supervisor writes
//! STATE/tokens/NS.NAME       the token of a job, which its programs show each other
//! STATE/masters/JOB_UID/     the journal of a job's master
//! STATE/masters/JOB_UID.faults.json  the faults that are injected into it, under --chaos
//! STATE/full                 exists while writes fail by injection, under --chaos
//! STATE/events.jsonl         events, one in a line; events.jsonl.1 is the rotated file
//! STATE/cluster.log          the log of a cluster in the background; cluster.log.1 is the rotated file
//! ```

mod ownership;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use thiserror::Error;

use crate::chaos::WriteFaults;
use crate::pods::folder::PodFolder;

/// The folders of a state directory.
const FOLDERS: [&str; 6] = ["jobs", "objects", "pods", "status", "masters", "tokens"];

#[derive(Debug, Clone)]
pub struct StateDir(PathBuf, WriteFaults);

/// Why a cluster cannot use its state directory.
#[derive(Debug, Error)]
pub enum StateDirError {
    /// Another process runs a cluster in it.
    #[error("a laptop cluster runs already in {}; `flexor apply -f FILE` gives it more jobs, `flexor local down` ends it, --state-dir DIR starts another beside it", .0.display())]
    Taken(PathBuf),
    /// What is in it could have been put there by another user.
    #[error("{} belongs to user {owner}, and you are user {user}: its jobs would run as you; name a directory of your own with --state-dir DIR", path.display())]
    OfOther { path: PathBuf, owner: u32, user: u32 },
    #[error("other users can write to {}, and what they write would run as you; if you trust what is in it, `chmod -R go-w` makes it yours alone, else name another with --state-dir DIR", .0.display())]
    WritableByOthers(PathBuf),
    /// The disk refuses.
    #[error("cannot use {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Held while a process runs the cluster.
#[derive(Debug)]
pub struct StateDirLock {
    _lock: File,
}

impl StateDir {
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into(), WriteFaults::default())
    }

    /// The same directory, in which writes fail while it contains a file `full`.
    #[must_use]
    pub fn with_write_faults(self) -> Self {
        let file = self.full();
        Self(self.0, WriteFaults::while_there_is(file))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates the directory if it is missing, for its owner alone, and locks it.
    ///
    /// # Errors
    ///
    /// Another process holds the lock, the directory is not this user's alone, or the disk refuses.
    pub fn lock(&self) -> Result<StateDirLock, StateDirError> {
        let refused = |source| StateDirError::Io { path: self.0.clone(), source };
        create_private(&self.0).map_err(refused)?;
        self.check_owner()?;
        for folder in FOLDERS {
            create_private(&self.0.join(folder)).map_err(refused)?;
        }
        let lock = self.open_lock().map_err(|source| StateDirError::Io { path: self.lock_file(), source })?;
        match lock.try_lock() {
            Ok(()) => {
                // Injected write faults end with the process that injected them.
                let _ = fs::remove_file(self.full());
                self.check_parts()?;
                Ok(StateDirLock { _lock: lock })
            }
            Err(TryLockError::WouldBlock) => Err(StateDirError::Taken(self.0.clone())),
            Err(TryLockError::Error(source)) => Err(refused(source)),
        }
    }

    fn lock_file(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Opens the lock without following a link: the file that it leads to is another program's.
    fn open_lock(&self) -> io::Result<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(self.lock_file())
    }

    /// The logs of the last run that failed.
    pub fn logs_of_last_failure(&self) -> PathBuf {
        self.0.join("last-failure")
    }

    pub fn jobs(&self) -> PathBuf {
        self.0.join("jobs")
    }

    /// The names of the stored jobs. If no cluster runs, a killed one has left them.
    pub fn job_names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.jobs()).into_iter().flatten();
        let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> =
            files.filter_map(|file| Some(file.strip_suffix(".json")?.split_once('.')?.1.to_owned())).collect();
        names.sort();
        names
    }

    /// ConfigMaps, Secrets and PriorityClasses.
    pub fn objects(&self) -> PathBuf {
        self.0.join("objects")
    }

    /// The files of a PersistentVolumeClaim.
    pub fn claim(&self, namespace: &str, name: &str) -> PathBuf {
        self.0.join("claims").join(namespace).join(name)
    }

    pub fn pods(&self) -> PathBuf {
        self.0.join("pods")
    }

    /// The statuses of all pods.
    pub fn status(&self) -> PathBuf {
        self.0.join("status")
    }

    /// The journal of a job's master.
    pub fn master(&self, job_uid: &str) -> PathBuf {
        self.0.join("masters").join(job_uid)
    }

    /// The token of a job.
    pub fn token(&self, namespace: &str, name: &str) -> PathBuf {
        // Namespaces have no dots, so names are unique.
        self.0.join("tokens").join(format!("{namespace}.{name}"))
    }

    /// The faults that are injected into a job's master.
    pub fn faults(&self, job_uid: &str) -> PathBuf {
        self.0.join("masters").join(format!("{job_uid}.faults.json"))
    }

    /// Exists while writes fail by injection.
    pub fn full(&self) -> PathBuf {
        self.0.join("full")
    }

    /// Injected faults of writes.
    pub fn write_faults(&self) -> &WriteFaults {
        &self.1
    }

    /// The socket of the API.
    pub fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    pub fn events(&self) -> PathBuf {
        self.0.join("events.jsonl")
    }

    /// The log of a cluster in the background.
    pub fn log(&self) -> PathBuf {
        self.0.join("cluster.log")
    }

    /// The way in which the memory of pods is limited.
    pub fn limits(&self) -> PathBuf {
        self.0.join("limits.json")
    }

    pub fn pod(&self, uid: &str) -> PodFolder {
        PodFolder::new(&self.pods(), &self.status(), uid).with_write_faults(self.1.clone())
    }
}

/// Creates a folder for its owner alone, with what is missing above it.
pub(crate) fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
