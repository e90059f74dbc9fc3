//! Where the output of workers goes: torchrun's `--log-dir`, `--redirects`, `--tee`, `--local-ranks-filter` and
//! `--log-line-prefix-template`.
//!
//! [`LogOptions`] hold what the user asked for, [`RunLogs`] the folder of one run, [`AttemptLogs`] that of one attempt,
//! from which a worker gets its streams and its error file. A stream that is neither redirected nor tee'd is the
//! launcher's own; a tee'd one is a pipe that [`pump`] reads. What the launcher itself has to say is not logged here.

mod destination;
mod folder;
mod lines;
mod prefix;
mod pump;
mod streams;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

pub use folder::LogFolder;
pub use prefix::LinePrefix;
pub use streams::{StreamChoice, StreamChoiceError, Streams};

pub(super) use pump::Pumps;

use super::worker::{LocalRank, WorkerSpec};
use destination::{Destination, Stream};
use folder::RunFolder;
use lines::ConsoleLines;
use pump::Tee;

/// Why output cannot go where it should.
#[derive(Debug, Error)]
pub enum LogError {
    /// A folder cannot be made.
    #[error("cannot make the log folder '{}': {source}; choose another with --log-dir", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be opened.
    #[error("cannot write the log file '{}': {source}; choose another folder with --log-dir", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No pipe, or no thread to read it.
    #[error("cannot tee output: {0}; check the limits of open files (ulimit -n) and processes (ulimit -u)")]
    Tee(#[from] io::Error),
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
    /// The folder of the run.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder though nobody asked for one. Without this, a folder of error files alone goes when this value
    /// does; after a failure they are worth having.
    pub fn keep(&mut self) {
        self.folder.keep();
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

    /// Gives `command` the streams of the worker, adds to `tees` what is to be pumped, and returns its error file.
    pub(super) fn attach(
        &self,
        worker: &WorkerSpec,
        command: &mut Command,
        tees: &mut Vec<Tee>,
    ) -> Result<PathBuf, LogError> {
        make_folder(&self.folder_of(worker.local_rank))?;
        let error_file = self.error_file(worker.local_rank);
        // One of an earlier round with the same number would be taken for this worker's.
        match fs::remove_file(&error_file) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(LogError::File { path: error_file, source });
            }
            Ok(()) | Err(_) => {}
        }
        command.stdout(self.stdio(Stream::Stdout, worker, tees)?);
        command.stderr(self.stdio(Stream::Stderr, worker, tees)?);
        Ok(error_file)
    }

    fn stdio(&self, stream: Stream, worker: &WorkerSpec, tees: &mut Vec<Tee>) -> Result<Stdio, LogError> {
        let destination = Destination::choose(&self.options, stream, worker.local_rank, self.writes_files);
        let file = || open(self.folder_of(worker.local_rank).join(stream.file_name()));
        Ok(match destination {
            Destination::Launcher => Stdio::inherit(),
            Destination::Nowhere => Stdio::null(),
            Destination::File => file()?.into(),
            Destination::Console | Destination::FileAndConsole => {
                let file = if destination == Destination::FileAndConsole { Some(file()?) } else { None };
                let (source, end_of_worker) = io::pipe()?;
                let lines = ConsoleLines::new(self.options.prefix.of(worker));
                tees.push(Tee { stream, source, file, lines });
                end_of_worker.into()
            }
        })
    }

    fn folder_of(&self, local_rank: LocalRank) -> PathBuf {
        self.folder.join(local_rank.to_string())
    }
}

fn make_folder(path: &Path) -> Result<(), LogError> {
    fs::create_dir_all(path).map_err(|source| LogError::Folder { path: path.to_owned(), source })
}

fn open(path: PathBuf) -> Result<File, LogError> {
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    opened.map_err(|source| LogError::File { path, source })
}
