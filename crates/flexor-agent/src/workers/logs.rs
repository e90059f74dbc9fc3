//! Where the output of workers goes: torchrun's `--log-dir`, `--redirects`, `--tee`, `--local-ranks-filter` and
//! `--log-line-prefix-template`.
//!
//! [`LogOptions`] hold what the user asked for, [`RunLogs`] the folder of one run, [`AttemptLogs`] that of one attempt,
//! from which a worker gets its streams and its error file. A stream that is neither redirected nor tee'd is the
//! launcher's own; a tee'd one is pumped ([`crate::processes`]). What the launcher itself has to say is not logged here.

mod destination;
mod folder;
mod prefix;
mod streams;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use folder::LogFolder;
pub use prefix::LinePrefix;
pub use streams::{StreamChoice, Streams};

use super::worker::{LocalRank, WorkerSpec};
use crate::processes::{LogFile, Output};
use destination::{Destination, Stream};
use folder::RunFolder;

/// Why output cannot go where it should. The texts say the cause, so that it is nobody's source.
#[derive(Debug, Error)]
pub enum LogError {
    /// A folder cannot be made.
    #[error("cannot make the log folder '{}': {cause}; choose another with --log-dir", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A file cannot be opened.
    #[error("cannot write the log file '{}': {cause}; choose another folder with --log-dir", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// `--log-dir`.
    pub folder: LogFolder,
    /// `--redirects`: what goes to a file and not to the console.
    pub redirects: StreamChoice,
    /// `--tee`: what goes to a file and to the console.
    pub tee: StreamChoice,
    /// `--local-ranks-filter`: the workers that may write to the console; all where there is none.
    pub shown: Option<BTreeSet<LocalRank>>,
    /// `--log-line-prefix-template`.
    pub prefix: LinePrefix,
}

impl LogOptions {
    /// Makes the folder of one run: `<log dir>/<run id>_<random>`.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn open(self, run_id: &str) -> Result<RunLogs, LogError> {
        let wanted = !self.redirects.is_none() || !self.tee.is_none();
        let folder = RunFolder::make(&self.folder, run_id, wanted)?;
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
    /// Keeps the folder though nobody asked for one. Without this, a folder of error files alone goes when this value
    /// does; after a failure they are worth having.
    pub fn keep(&mut self) {
        self.folder.keep();
    }

    /// The folder in which output is written to files, where some is.
    pub fn folder_of_files(&self) -> Option<&Path> {
        let wanted = !self.options.redirects.is_none() || !self.options.tee.is_none();
        (wanted && self.folder.takes_logs()).then(|| self.folder.path())
    }

    /// Makes the folder of one attempt, `attempt_<number>`.
    ///
    /// A number that was used before is used again: logs are continued, not lost.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn attempt(&self, number: u32) -> Result<AttemptLogs, LogError> {
        let folder = self.folder.path().join(format!("attempt_{number}"));
        make_folder(&folder)?;
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
    /// Where the worker of `local_rank` is told to write its error.
    pub fn error_file(&self, local_rank: LocalRank) -> PathBuf {
        self.folder_of(local_rank).join("error.json")
    }

    /// Makes the place of a worker's files: no error file is there, whatever was before.
    pub(super) fn prepare(&self, local_rank: LocalRank) -> Result<(), LogError> {
        make_folder(&self.folder_of(local_rank))?;
        // One of an earlier round with the same number would be taken for this worker's.
        let path = self.error_file(local_rank);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(LogError::File { path, cause }),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Where a worker's standard output goes.
    pub(super) fn stdout(&self, worker: &WorkerSpec) -> Result<Output, LogError> {
        self.output(Stream::Stdout, worker)
    }

    /// Where a worker's standard error goes.
    pub(super) fn stderr(&self, worker: &WorkerSpec) -> Result<Output, LogError> {
        self.output(Stream::Stderr, worker)
    }

    fn output(&self, stream: Stream, worker: &WorkerSpec) -> Result<Output, LogError> {
        let path = self.folder_of(worker.local_rank).join(stream.file_name());
        let failed = |cause| LogError::File { path: path.clone(), cause };
        let prefix = Some(self.options.prefix.of(worker));
        Ok(match Destination::choose(&self.options, stream, worker.local_rank, self.writes_files) {
            Destination::Launcher => Output::Inherited,
            Destination::Nowhere => Output::Nowhere,
            Destination::File => {
                Output::File(OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?)
            }
            Destination::Console => Output::Pumped { file: None, prefix },
            Destination::FileAndConsole => {
                Output::Pumped { file: Some(LogFile::open(&path, None).map_err(failed)?), prefix }
            }
        })
    }

    fn folder_of(&self, local_rank: LocalRank) -> PathBuf {
        self.folder.join(local_rank.to_string())
    }
}

fn make_folder(path: &Path) -> Result<(), LogError> {
    fs::create_dir_all(path).map_err(|cause| LogError::Folder { path: path.to_owned(), cause })
}
