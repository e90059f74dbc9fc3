//! Where the output of programs goes.
//!
//! A stream is our own, or a file that the program writes itself, or a pipe that we read ([`pump`]) to pass it on: to a
//! file that is put aside when it is full, to our own stream line by line, or to both. Which of these is the caller's
//! choice, for each program and stream.

mod console;
mod lines;
mod log_file;
mod pump;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, timeout_at};

pub use log_file::{LogCut, LogFile, Rotation};

use super::lineage::Serial;
use lines::ConsoleLines;
use pump::{Pump, Source};

/// Where one stream of a program goes.
#[derive(Debug)]
pub enum Output {
    /// Our own stream, written to by the program itself.
    Inherited,
    /// Nobody wants it.
    Nowhere,
    /// A file that the program writes itself.
    File(File),
    /// Through us.
    Pumped {
        /// A file to write it to.
        file: Option<LogFile>,
        /// Whether to write it to our own stream, and what to put before each line there.
        prefix: Option<String>,
    },
    /// Standard error only: wherever standard output goes, in the order in which both are written.
    WithStdout,
}

/// One of the two streams that a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// The program's end of a stream.
enum End {
    Inherited,
    Null,
    Open(OwnedFd),
}

impl End {
    /// The same for the other stream.
    fn again(&self) -> io::Result<Self> {
        Ok(match self {
            End::Inherited => End::Open(io::stdout().as_fd().try_clone_to_owned()?),
            End::Null => End::Null,
            End::Open(fd) => End::Open(fd.try_clone()?),
        })
    }
}

impl From<End> for Stdio {
    fn from(end: End) -> Self {
        match end {
            End::Inherited => Stdio::inherit(),
            End::Null => Stdio::null(),
            End::Open(fd) => fd.into(),
        }
    }
}

/// The pumps of some programs.
#[derive(Debug, Default)]
pub(super) struct Pumps {
    /// Started when they are needed.
    stdout: Option<Pump>,
    stderr: Option<Pump>,
    /// Streams that have not ended, as far as was seen.
    open: Vec<(Serial, oneshot::Receiver<()>)>,
}

impl Pumps {
    /// Makes of both outputs what a program can be given, and what is to be pumped once it has started.
    pub(super) fn prepare(&mut self, stdout: Output, stderr: Output) -> io::Result<[(Stdio, Option<Source>); 2]> {
        let shared = matches!(stderr, Output::WithStdout);
        let (end, out) = self.prepare_one(Stream::Stdout, stdout)?;
        let (other, err) = if shared { (end.again()?, None) } else { self.prepare_one(Stream::Stderr, stderr)? };
        Ok([(end.into(), out), (other.into(), err)])
    }

    fn prepare_one(&mut self, stream: Stream, output: Output) -> io::Result<(End, Option<Source>)> {
        let (file, prefix) = match output {
            Output::Inherited => return Ok((End::Inherited, None)),
            // There is no other stream to go with.
            Output::Nowhere | Output::WithStdout => return Ok((End::Null, None)),
            Output::File(file) => return Ok((End::Open(file.into()), None)),
            Output::Pumped { file, prefix } => (file, prefix),
        };
        match stream {
            Stream::Stdout if self.stdout.is_none() => self.stdout = Some(Pump::start(io::stdout())?),
            Stream::Stderr if self.stderr.is_none() => self.stderr = Some(Pump::start(io::stderr())?),
            Stream::Stdout | Stream::Stderr => {}
        }
        let (pipe, end_of_program) = io::pipe()?;
        let source = Source { pipe, file, lines: prefix.map(ConsoleLines::new) };
        Ok((End::Open(end_of_program.into()), Some(source)))
    }

    /// Begins to pump what was prepared.
    pub(super) fn open(&mut self, stream: Stream, serial: Serial, source: Option<Source>) {
        let pump = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        if let (Some(pump), Some(source)) = (pump, source) {
            self.open.retain_mut(|(_, done)| done.try_recv() == Err(TryRecvError::Empty));
            self.open.push((serial, pump.open(serial, source)));
        }
    }

    /// Lets the pumps read what `serials` have left, for `patience` at most. One that is stuck in a write is left behind.
    pub(super) async fn finish(&mut self, serials: &[Serial], patience: Duration) {
        let until = Instant::now() + patience;
        for pump in self.stdout.iter_mut().chain(&mut self.stderr) {
            serials.iter().for_each(|serial| pump.finish(*serial));
        }
        let theirs = self.open.extract_if(.., |(serial, _)| serials.contains(serial));
        for (_, mut done) in theirs.collect::<Vec<_>>() {
            if timeout_at(until, &mut done).await.is_err() {
                tracing::warn!("output of a program is lost: nobody reads what is written here");
            }
        }
    }
}
