//! Reads the pipes of tee'd streams, and writes what comes to log file and console.
//!
//! One thread for each of the launcher's two streams, because writing may block: a pager that nobody scrolls must not
//! stop the launcher, nor standard output standard error. There are no queues: while a write blocks, the pipe fills and
//! the program waits. A console or file that fails is given up, the rest goes on. Pipes that a daemon keeps open do
//! not keep a thread: when the group is gone, what is there is read and that is all.

use std::fs::File;
use std::io::{self, BufWriter, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::destination::Stream;
use super::lines::ConsoleLines;

/// What is read, and written to the console, at once.
const BUFFER: usize = 64 << 10;
/// Threads that hardly call anything.
const STACK: usize = 128 << 10;

/// A stream to pump.
#[derive(Debug)]
pub(in crate::workers) struct Tee {
    pub(super) stream: Stream,
    pub(super) source: PipeReader,
    pub(super) file: Option<File>,
    pub(super) lines: ConsoleLines,
}

/// The pumps of a group.
#[derive(Debug, Default)]
pub(in crate::workers) struct Pumps(Vec<Pump>);

#[derive(Debug)]
struct Pump {
    /// Closed to tell the thread that the group is gone.
    group: Option<PipeWriter>,
    /// Closed by the thread when it ends.
    done: oneshot::Receiver<()>,
}

impl Pumps {
    /// Starts to pump; a stream that has nothing to pump gets no thread.
    pub(in crate::workers) fn start(tees: Vec<Tee>) -> io::Result<Self> {
        let (stdout, stderr): (Vec<_>, Vec<_>) = tees.into_iter().partition(|tee| tee.stream == Stream::Stdout);
        let mut pumps = Vec::new();
        if !stdout.is_empty() {
            pumps.push(Pump::start(stdout, io::stdout())?);
        }
        if !stderr.is_empty() {
            pumps.push(Pump::start(stderr, io::stderr())?);
        }
        Ok(Self(pumps))
    }

    /// Lets the pumps read what the group left, for `patience` at most. One that is stuck in a write is left behind.
    pub(in crate::workers) async fn finish(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        for pump in &mut self.0 {
            pump.group = None;
        }
        while let Some(mut pump) = self.0.pop() {
            if timeout_at(until, &mut pump.done).await.is_err() {
                tracing::warn!("output of the workers is lost: nobody reads what the launcher writes");
            }
        }
    }
}

impl Pump {
    fn start(tees: Vec<Tee>, console: impl Write + Send + 'static) -> io::Result<Self> {
        let (gone, group) = io::pipe()?;
        let (ends, done) = oneshot::channel::<()>();
        let body = move || {
            pump(tees, &gone, Console::new(console));
            drop(ends);
        };
        thread::Builder::new().name("tee".to_owned()).stack_size(STACK).spawn(body)?;
        Ok(Self { group: Some(group), done })
    }
}

/// Pumps until every stream has ended, or the group is gone and nothing is left to read.
fn pump(mut tees: Vec<Tee>, gone: &PipeReader, mut console: Console<impl Write>) {
    let mut buffer = vec![0; BUFFER];
    let mut group_lives = true;
    while !tees.is_empty() {
        let mut fds: Vec<_> = tees.iter().map(|tee| PollFd::new(tee.source.as_fd(), PollFlags::POLLIN)).collect();
        if group_lives {
            fds.push(PollFd::new(gone.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, if group_lives { PollTimeout::NONE } else { PollTimeout::ZERO }) {
            Ok(0) => break,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                tracing::error!(%error, "cannot read the output of workers");
                break;
            }
        }
        let mut ready = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect::<Vec<_>>().into_iter();
        drop(fds);
        tees.retain_mut(|tee| !ready.next().unwrap_or(false) || tee.move_on(&mut buffer, &mut console));
        group_lives = group_lives && !ready.next().unwrap_or(false);
        console.flush();
    }
    for tee in &mut tees {
        console.write(|console| tee.lines.finish(console));
    }
    console.flush();
}

impl Tee {
    /// Moves what is in the pipe, at most a buffer of it; false when the stream has ended.
    fn move_on(&mut self, buffer: &mut [u8], console: &mut Console<impl Write>) -> bool {
        let bytes = match self.source.read(buffer) {
            Ok(0) => {
                console.write(|console| self.lines.finish(console));
                return false;
            }
            Ok(length) => &buffer[..length],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) => {
                tracing::warn!(%error, "the output of a worker cannot be read any more");
                return false;
            }
        };
        if let Some(Err(error)) = self.file.as_mut().map(|file| file.write_all(bytes)) {
            tracing::warn!(%error, "a log file cannot be written any more; the rest is on the console only");
            self.file = None;
        }
        console.write(|console| self.lines.push(bytes, console));
        true
    }
}

/// One of the launcher's streams; `None` once nobody reads it.
struct Console<W: Write>(Option<BufWriter<Patient<W>>>);

impl<W: Write> Console<W> {
    fn new(out: W) -> Self {
        Self(Some(BufWriter::with_capacity(BUFFER, Patient(out))))
    }

    fn write(&mut self, write: impl FnOnce(&mut BufWriter<Patient<W>>) -> io::Result<()>) {
        if let Some(Err(error)) = self.0.as_mut().map(write) {
            tracing::warn!(%error, "the console cannot be written any more; log files go on");
            // What is buffered cannot be written either, and must not be tried again when the buffer is dropped.
            if let Some(console) = self.0.take() {
                _ = console.into_parts();
            }
        }
    }

    fn flush(&mut self) {
        self.write(BufWriter::flush);
    }
}

/// A writer that waits where the stream would not: a program that shares the launcher's console may have made it
/// non-blocking for all.
struct Patient<W>(W);

impl<W: Write> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        retry(|| self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        retry(|| self.0.flush())
    }
}

fn retry<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests;
