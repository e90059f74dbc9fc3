//! Where the output of programs goes.
//!
//! A stream of a program is our own stream, a file that the program writes itself, or a pipe that we read ([`pump`]). The
//! pump writes to a rotated log file, to our own stream line by line, or to both. The caller chooses, for each program
//! and stream.

mod console;
mod failure_watch;
mod lines;
mod log_file;
mod pump;
mod traceback;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, timeout_at};

pub use failure_watch::{FailureWatch, PrintedCause, PrintedFailure};
pub use log_file::{LogCut, LogFile, Rotation};
pub use traceback::Traceback;

use super::process_tag::StartId;
use lines::ConsoleLines;
use pump::{ConsoleForm, Pump, PumpSource};

/// Where one stream of a program goes.
#[derive(Debug)]
pub enum Output {
    /// Our own stream, written to by the program itself.
    Inherited,
    Nowhere,
    /// A file that the program writes itself.
    File(File),
    /// A pipe that we read.
    Pumped {
        /// The log file, if there is one.
        file: Option<LogFile>,
        /// The prefix of each line on our own stream; none where nothing is written there.
        prefix: Option<String>,
        /// Looks for the reason of a failure.
        watch: Option<FailureWatch>,
    },
    /// Our own stream, through a pipe that we read for the reason of a failure. The bytes stay as they are.
    Watched(FailureWatch),
    /// Only for standard error: the destination of standard output, in the order in which both are written.
    WithStdout,
}

/// One of the two streams that a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputStream {
    Stdout,
    Stderr,
}

/// The program's end of a stream.
enum ProgramEnd {
    Inherited,
    Null,
    Open(OwnedFd),
}

impl ProgramEnd {
    /// A second end for the other stream.
    fn duplicate(&self) -> io::Result<Self> {
        Ok(match self {
            ProgramEnd::Inherited => ProgramEnd::Open(io::stdout().as_fd().try_clone_to_owned()?),
            ProgramEnd::Null => ProgramEnd::Null,
            ProgramEnd::Open(fd) => ProgramEnd::Open(fd.try_clone()?),
        })
    }
}

impl From<ProgramEnd> for Stdio {
    fn from(end: ProgramEnd) -> Self {
        match end {
            ProgramEnd::Inherited => Stdio::inherit(),
            ProgramEnd::Null => Stdio::null(),
            ProgramEnd::Open(fd) => fd.into(),
        }
    }
}

/// The pumps of a set of programs.
#[derive(Debug, Default)]
pub(super) struct Pumps {
    /// Started on first use.
    stdout: Option<Pump>,
    stderr: Option<Pump>,
    /// Streams whose end was not seen yet.
    open: Vec<(StartId, oneshot::Receiver<()>)>,
}

impl Pumps {
    /// Opens both outputs: the ends for the program, and the sources that are pumped once it has started.
    pub(super) fn prepare(&mut self, stdout: Output, stderr: Output) -> io::Result<[(Stdio, Option<PumpSource>); 2]> {
        let shared = matches!(stderr, Output::WithStdout);
        let (end, out) = self.prepare_one(OutputStream::Stdout, stdout)?;
        let (other, err) =
            if shared { (end.duplicate()?, None) } else { self.prepare_one(OutputStream::Stderr, stderr)? };
        Ok([(end.into(), out), (other.into(), err)])
    }

    fn prepare_one(&mut self, stream: OutputStream, output: Output) -> io::Result<(ProgramEnd, Option<PumpSource>)> {
        let (file, console, watch) = match output {
            Output::Inherited => return Ok((ProgramEnd::Inherited, None)),
            // `WithStdout` of standard output itself has no meaning.
            Output::Nowhere | Output::WithStdout => return Ok((ProgramEnd::Null, None)),
            Output::File(file) => return Ok((ProgramEnd::Open(file.into()), None)),
            Output::Pumped { file, prefix, watch } => {
                let lines = prefix.map(ConsoleLines::new);
                (file, lines.map_or(ConsoleForm::Nothing, ConsoleForm::Lines), watch)
            }
            Output::Watched(watch) => (None, ConsoleForm::Bytes, Some(watch)),
        };
        match stream {
            OutputStream::Stdout if self.stdout.is_none() => self.stdout = Some(Pump::start(io::stdout())?),
            OutputStream::Stderr if self.stderr.is_none() => self.stderr = Some(Pump::start(io::stderr())?),
            OutputStream::Stdout | OutputStream::Stderr => {}
        }
        let (pipe, end_of_program) = io::pipe()?;
        let source = PumpSource { pipe, file, console, watch };
        Ok((ProgramEnd::Open(end_of_program.into()), Some(source)))
    }

    /// Starts to pump a prepared source.
    pub(super) fn open(&mut self, stream: OutputStream, start_id: StartId, source: Option<PumpSource>) {
        let pump = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        if let (Some(pump), Some(source)) = (pump, source) {
            self.open.retain_mut(|(_, done)| done.try_recv() == Err(TryRecvError::Empty));
            self.open.push((start_id, pump.open(start_id, source)));
        }
    }

    /// Drains the streams of `start_ids`, for `limit` at most. A pump that is stuck in a write is left behind.
    pub(super) async fn finish(&mut self, start_ids: &[StartId], limit: Duration) {
        let until = Instant::now() + limit;
        for pump in self.stdout.iter_mut().chain(&mut self.stderr) {
            start_ids.iter().for_each(|start_id| pump.finish(*start_id));
        }
        let selected = self.open.extract_if(.., |(start_id, _)| start_ids.contains(start_id));
        for (_, mut done) in selected.collect::<Vec<_>>() {
            if timeout_at(until, &mut done).await.is_err() {
                tracing::warn!("output of a program is lost: the console is not read");
            }
        }
    }
}
