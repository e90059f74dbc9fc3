//! The pump: reads the piped output of programs and writes it to log files and the console.
//!
//! Each of the two streams has a thread, because writes may block: an idle pager must stop neither us nor the other
//! stream. There are no queues: while a write blocks, the pipe fills and the program waits. A console or file that fails
//! is given up; the rest goes on. A pipe that a daemon keeps open delays nothing: a stream that is drained is read until
//! its pipe is empty.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;

use jiff::Timestamp;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::oneshot;

use super::super::process_tag::StartId;
use super::console::Console;
use super::failure_watch::FailureWatch;
use super::lines::ConsoleLines;
use super::log_file::LogFile;

/// First size of the read buffer, in bytes. A thousand processes of ours may have one each.
const SMALL_BUFFER: usize = 4 << 10;
/// Size of the read buffer once a program fills the small one, in bytes.
const BUFFER: usize = 64 << 10;
/// Stack size of the threads, which have few nested calls.
const STACK: usize = 128 << 10;

/// A stream that is to be pumped.
#[derive(Debug)]
pub(in crate::processes) struct PumpSource {
    pub(super) pipe: PipeReader,
    pub(super) file: Option<LogFile>,
    pub(super) console: ConsoleForm,
    pub(super) watch: Option<FailureWatch>,
}

/// How a stream appears on the console.
#[derive(Debug)]
pub(super) enum ConsoleForm {
    Nothing,
    /// Whole lines, each with its prefix.
    Lines(ConsoleLines),
    /// The bytes as they come.
    Bytes,
}

/// A stream that is pumped.
struct PumpedStream {
    start_id: StartId,
    source: PumpSource,
    /// Ends when its pipe is empty.
    draining: bool,
    /// Dropped with the stream, which notifies the receiver.
    _done: oneshot::Sender<()>,
}

enum PumpCommand {
    Open(PumpedStream),
    Finish(StartId),
}

/// The thread of one stream. Dropping this makes the thread drain its pipes and end.
#[derive(Debug)]
pub(super) struct Pump {
    commands: mpsc::Sender<PumpCommand>,
    /// One byte per command wakes the thread.
    wakeup: PipeWriter,
}

impl Pump {
    pub(super) fn start(console: impl Write + Send + 'static) -> io::Result<Self> {
        let (reader, wakeup) = io::pipe()?;
        let (commands, received) = mpsc::channel();
        let body = move || run(&received, reader, Console::new(console));
        thread::Builder::new().name("output".to_owned()).stack_size(STACK).spawn(body)?;
        Ok(Self { commands, wakeup })
    }

    /// Pumps a stream of `start_id`. The receiver is closed when the stream has ended.
    pub(super) fn open(&mut self, start_id: StartId, source: PumpSource) -> oneshot::Receiver<()> {
        let (_done, done) = oneshot::channel();
        self.send(PumpCommand::Open(PumpedStream { start_id, source, draining: false, _done }));
        done
    }

    /// Drains the streams of `start_id` and ends them.
    pub(super) fn finish(&mut self, start_id: StartId) {
        self.send(PumpCommand::Finish(start_id));
    }

    fn send(&mut self, command: PumpCommand) {
        // The thread ends before this only after a failure, which it has logged.
        if self.commands.send(command).is_ok() {
            _ = self.wakeup.write_all(&[0]);
        }
    }
}

fn run(commands: &mpsc::Receiver<PumpCommand>, mut wakeup: PipeReader, mut console: Console<impl Write>) {
    let mut buffer = vec![0; SMALL_BUFFER];
    let mut streams = Vec::<PumpedStream>::new();
    let mut has_owner = true;
    while has_owner || !streams.is_empty() {
        let (ready, woken) = match wait(&streams, has_owner.then_some(&wakeup)) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => continue,
            Err(error) => {
                tracing::error!(%error, "cannot read the output of programs");
                return;
            }
        };
        let mut ready = ready.into_iter();
        streams.retain_mut(|stream| match ready.next() {
            Some(true) => stream.pump(&mut buffer, &mut console),
            Some(false) | None if stream.draining => {
                stream.end(&mut console);
                false
            }
            Some(false) | None => true,
        });
        console.flush();
        if woken {
            // The owner has dropped the pump when the pipe is closed.
            has_owner = !matches!(wakeup.read(&mut buffer), Ok(0));
            for command in commands.try_iter() {
                match command {
                    PumpCommand::Open(stream) => streams.push(stream),
                    PumpCommand::Finish(start_id) => {
                        let finished = streams.iter_mut().filter(|stream| stream.start_id == start_id);
                        finished.for_each(|stream| stream.draining = true);
                    }
                }
            }
            if !has_owner {
                streams.iter_mut().for_each(|stream| stream.draining = true);
            }
        }
    }
}

/// Waits until something can be read. Returns which streams are readable, and whether a command came.
fn wait(streams: &[PumpedStream], wakeup: Option<&PipeReader>) -> Result<(Vec<bool>, bool), Errno> {
    let pipes = streams.iter().map(|stream| &stream.source.pipe).chain(wakeup);
    let mut fds: Vec<_> = pipes.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)).collect();
    let at_once = streams.iter().any(|stream| stream.draining);
    poll(&mut fds, if at_once { PollTimeout::ZERO } else { PollTimeout::NONE })?;
    let mut ready: Vec<_> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
    let woken = wakeup.is_some() && ready.pop().unwrap_or(false);
    Ok((ready, woken))
}

impl PumpedStream {
    /// Copies at most one buffer from the pipe. Returns false when the stream has ended.
    fn pump(&mut self, buffer: &mut Vec<u8>, console: &mut Console<impl Write>) -> bool {
        let source = &mut self.source;
        let bytes = match source.pipe.read(buffer) {
            Ok(0) => {
                self.end(console);
                return false;
            }
            Ok(length) => &buffer[..length],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) => {
                tracing::warn!(%error, "the output of a program cannot be read any more");
                return false;
            }
        };
        if let Some(file) = &mut source.file
            && let Err(error) = file.write(bytes)
        {
            let path = file.path().display();
            tracing::warn!(%path, %error, "a log file cannot be written any more; what follows is not in it");
            if let Some(file) = source.file.take() {
                file.cut(error);
            }
        }
        match &mut source.console {
            ConsoleForm::Nothing => {}
            ConsoleForm::Lines(lines) => console.write(|console| lines.push(bytes, console)),
            ConsoleForm::Bytes => console.write(|console| console.write_all(bytes)),
        }
        if let Some(watch) = &source.watch {
            watch.push(bytes, Timestamp::now());
        }
        if bytes.len() == buffer.len() && buffer.len() < BUFFER {
            buffer.resize(BUFFER, 0);
        }
        true
    }

    /// Writes the last line, if the stream did not end with the end of a line.
    fn end(&mut self, console: &mut Console<impl Write>) {
        if let ConsoleForm::Lines(lines) = &mut self.source.console {
            console.write(|console| lines.finish(console));
            console.flush();
        }
    }
}

#[cfg(test)]
mod tests;
