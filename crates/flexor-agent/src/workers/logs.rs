//! Where the output of workers goes: torchrun's `--log-dir`, `--redirects`, `--tee`, `--local-ranks-filter` and
//! `--log-line-prefix-template`.
//!
//! [`LogOptions`] hold the user's options, [`RunLogs`] the folder of one run, [`AttemptLogs`] the folder of one attempt,
//! which has each worker's streams and error file. A stream that is neither redirected nor tee'd is the launcher's own; a
//! tee'd stream is pumped ([`crate::processes`]). The launcher's own log lines do not go here.

mod destination;
mod folder;
mod prefix;
mod streams;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use folder::LogFolder;
pub use prefix::LinePrefix;
pub use streams::{StreamChoice, Streams};

use super::redirected_log::RedirectedLog;
use super::worker::{LocalRank, WorkerSpec};
use crate::processes::{FailureWatch, LogFile, Output};
use destination::{Destination, LogStream};
use folder::RunFolder;

/// Why a log cannot be written. The messages contain the cause, so it is not the error's source too.
#[derive(Debug, Error)]
pub enum LogError {
    #[error("cannot make the log folder '{}': {cause}; choose another with --log-dir", path.display())]
    Folder { path: PathBuf, cause: io::Error },
    #[error("cannot write the log file '{}': {cause}; choose another folder with --log-dir", path.display())]
    File { path: PathBuf, cause: io::Error },
}

/// The user's options.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// `--log-dir`.
    pub folder: LogFolder,
    /// `--redirects`: streams that go to a file and not to the console.
    pub redirects: StreamChoice,
    /// `--tee`: streams that go to a file and to the console.
    pub tee: StreamChoice,
    /// `--local-ranks-filter`: the workers that may write to the console; without it, all.
    pub shown: Option<BTreeSet<LocalRank>>,
    /// `--log-line-prefix-template`.
    pub prefix: LinePrefix,
}

impl LogOptions {
    /// Creates the folder of one run: `<log dir>/<run id>_<random>`.
    ///
    /// # Errors
    ///
    /// It cannot be created.
    pub fn open(self, run_id: &str) -> Result<RunLogs, LogError> {
        let has_logs = !self.redirects.is_none() || !self.tee.is_none();
        let folder = RunFolder::create(&self.folder, run_id, has_logs)?;
        Ok(RunLogs { options: self, folder })
    }
}

/// The logs of one run.
#[derive(Debug)]
pub struct RunLogs {
    options: LogOptions,
    folder: RunFolder,
}

impl RunLogs {
    /// Keeps the folder even if the user did not ask for logs. Without this call, a folder that has only error files is
    /// removed when this value is dropped; after a failure they are useful.
    pub fn keep(&mut self) {
        self.folder.keep();
    }

    /// The folder of the log files, if output goes to files.
    pub fn folder_of_files(&self) -> Option<&Path> {
        let has_logs = !self.options.redirects.is_none() || !self.options.tee.is_none();
        (has_logs && self.folder.takes_logs()).then(|| self.folder.path())
    }

    /// Creates the folder of one attempt, `attempt_<number>`. The logs of an existing folder are continued.
    ///
    /// # Errors
    ///
    /// It cannot be created.
    pub fn attempt(&self, number: u32) -> Result<AttemptLogs, LogError> {
        let folder = self.folder.path().join(format!("attempt_{number}"));
        create_folder(&folder)?;
        Ok(AttemptLogs { options: self.options.clone(), folder, writes_files: self.folder.takes_logs() })
    }
}

/// The logs of one attempt.
#[derive(Debug, Clone)]
pub struct AttemptLogs {
    options: LogOptions,
    folder: PathBuf,
    /// False where the log folder is `/dev/null`.
    writes_files: bool,
}

impl AttemptLogs {
    /// The path of a worker's error file.
    pub fn error_file(&self, local_rank: LocalRank) -> PathBuf {
        self.folder_of(local_rank).join("error.json")
    }

    /// Creates the folder of a worker's files and removes an old error file.
    pub(super) fn prepare(&self, local_rank: LocalRank) -> Result<(), LogError> {
        create_folder(&self.folder_of(local_rank))?;
        // The error file of an earlier start with the same number would be taken for this worker's.
        let path = self.error_file(local_rank);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(LogError::File { path, cause }),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(super) fn stdout(&self, worker: &WorkerSpec) -> Result<Output, LogError> {
        self.output(LogStream::Stdout, worker, None)
    }

    /// The log of a worker that writes its standard error to a file by itself.
    pub(super) fn redirected_stderr(&self, local_rank: LocalRank) -> Option<RedirectedLog> {
        let stream = LogStream::Stderr;
        match Destination::choose(&self.options, stream, local_rank, self.writes_files) {
            Destination::File => Some(RedirectedLog::new(self.folder_of(local_rank).join(stream.file_name()))),
            Destination::Launcher | Destination::Nowhere | Destination::Console | Destination::FileAndConsole => None,
        }
    }

    /// Where the worker's standard error goes, and who looks in it for the reason of a failure. What a program writes to a
    /// terminal is not looked at.
    pub(super) fn stderr(&self, worker: &WorkerSpec, watch: &FailureWatch) -> Result<Output, LogError> {
        let output = self.output(LogStream::Stderr, worker, Some(watch.clone()))?;
        Ok(match output {
            Output::Inherited if !io::stderr().is_terminal() => Output::Watched(watch.clone()),
            other => other,
        })
    }

    fn output(&self, stream: LogStream, worker: &WorkerSpec, watch: Option<FailureWatch>) -> Result<Output, LogError> {
        let path = self.folder_of(worker.local_rank).join(stream.file_name());
        let failed = |cause| LogError::File { path: path.clone(), cause };
        let prefix = Some(self.options.prefix.of(worker));
        Ok(match Destination::choose(&self.options, stream, worker.local_rank, self.writes_files) {
            Destination::Launcher => Output::Inherited,
            Destination::Nowhere => Output::Nowhere,
            Destination::File => {
                Output::File(OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?)
            }
            Destination::Console => Output::Pumped { file: None, prefix, watch },
            Destination::FileAndConsole => {
                Output::Pumped { file: Some(LogFile::open(&path, None).map_err(failed)?), prefix, watch }
            }
        })
    }

    fn folder_of(&self, local_rank: LocalRank) -> PathBuf {
        self.folder.join(local_rank.to_string())
    }
}

fn create_folder(path: &Path) -> Result<(), LogError> {
    fs::create_dir_all(path).map_err(|cause| LogError::Folder { path: path.to_owned(), cause })
}
