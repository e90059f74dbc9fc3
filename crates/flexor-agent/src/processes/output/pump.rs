//! Reads the output of programs that is ours to pass on, and writes it to log file and console.
//!
//! One thread for each of the two streams, because writing may block: a pager that nobody scrolls must not stop us, nor
//! standard output standard error. There are no queues: while a write blocks, the pipe fills and the program waits. A
//! console or file that fails is given up, the rest goes on. Pipes that a daemon keeps open keep nobody: when a program
//! is to be finished with, what is there is read and that is all.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::oneshot;

use super::super::lineage::Serial;
use super::console::Console;
use super::lines::ConsoleLines;
use super::log_file::LogFile;

/// What is read at once of programs that print little. There may be a thousand of these, each in a process of its own.
const SMALL_BUFFER: usize = 4 << 10;
/// What is read at once of those that print much.
const BUFFER: usize = 64 << 10;
/// Threads that hardly call anything.
const STACK: usize = 128 << 10;

/// A stream to pump.
#[derive(Debug)]
pub(in crate::processes) struct Source {
    pub(super) pipe: PipeReader,
    pub(super) file: Option<LogFile>,
    pub(super) lines: Option<ConsoleLines>,
}

/// A stream that is pumped.
struct Tap {
    serial: Serial,
    source: Source,
    /// Whether to read only what is there.
    last_words: bool,
    /// Closed with the tap.
    _done: oneshot::Sender<()>,
}

enum Order {
    Open(Tap),
    Finish(Serial),
}

/// The thread of one stream. When this is dropped, it reads what is there and ends.
#[derive(Debug)]
pub(super) struct Pump {
    orders: mpsc::Sender<Order>,
    /// A byte for each order.
    bell: PipeWriter,
}

impl Pump {
    pub(super) fn start(console: impl Write + Send + 'static) -> io::Result<Self> {
        let (rung, bell) = io::pipe()?;
        let (orders, received) = mpsc::channel();
        let body = move || run(&received, rung, Console::new(console));
        thread::Builder::new().name("output".to_owned()).stack_size(STACK).spawn(body)?;
        Ok(Self { orders, bell })
    }

    /// Pumps a stream of `serial`. What comes back is closed when it has ended.
    pub(super) fn open(&mut self, serial: Serial, source: Source) -> oneshot::Receiver<()> {
        let (_done, done) = oneshot::channel();
        self.order(Order::Open(Tap { serial, source, last_words: false, _done }));
        done
    }

    /// Reads what `serial` has left, and no more.
    pub(super) fn finish(&mut self, serial: Serial) {
        self.order(Order::Finish(serial));
    }

    fn order(&mut self, order: Order) {
        // The thread is there as long as this is, but for a failure that it has told of.
        if self.orders.send(order).is_ok() {
            _ = self.bell.write_all(&[0]);
        }
    }
}

fn run(orders: &mpsc::Receiver<Order>, mut bell: PipeReader, mut console: Console<impl Write>) {
    let mut buffer = vec![0; SMALL_BUFFER];
    let mut taps = Vec::<Tap>::new();
    let mut wanted = true;
    while wanted || !taps.is_empty() {
        let (ready, rung) = match wait(&taps, wanted.then_some(&bell)) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => continue,
            Err(error) => {
                tracing::error!(%error, "cannot read the output of programs");
                return;
            }
        };
        let mut ready = ready.into_iter();
        taps.retain_mut(|tap| match ready.next() {
            Some(true) => tap.move_on(&mut buffer, &mut console),
            Some(false) | None if tap.last_words => {
                tap.end(&mut console);
                false
            }
            Some(false) | None => true,
        });
        console.flush();
        if rung {
            // It is closed, and so read to its end, when nobody wants the pump any more.
            wanted = !matches!(bell.read(&mut buffer), Ok(0));
            for order in orders.try_iter() {
                match order {
                    Order::Open(tap) => taps.push(tap),
                    Order::Finish(serial) => {
                        taps.iter_mut().filter(|tap| tap.serial == serial).for_each(|tap| tap.last_words = true);
                    }
                }
            }
            if !wanted {
                taps.iter_mut().for_each(|tap| tap.last_words = true);
            }
        }
    }
}

/// Waits until something can be read: by which taps, and whether the bell was rung.
fn wait(taps: &[Tap], bell: Option<&PipeReader>) -> Result<(Vec<bool>, bool), Errno> {
    let pipes = taps.iter().map(|tap| &tap.source.pipe).chain(bell);
    let mut fds: Vec<_> = pipes.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)).collect();
    let at_once = taps.iter().any(|tap| tap.last_words);
    poll(&mut fds, if at_once { PollTimeout::ZERO } else { PollTimeout::NONE })?;
    let mut ready: Vec<_> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
    let rung = bell.is_some() && ready.pop().unwrap_or(false);
    Ok((ready, rung))
}

impl Tap {
    /// Moves what is in the pipe, at most a buffer of it; false when the stream has ended.
    fn move_on(&mut self, buffer: &mut Vec<u8>, console: &mut Console<impl Write>) -> bool {
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
        if let Some(lines) = &mut source.lines {
            console.write(|console| lines.push(bytes, console));
        }
        if bytes.len() == buffer.len() && buffer.len() < BUFFER {
            buffer.resize(BUFFER, 0);
        }
        true
    }

    /// Writes what the stream ended with, where that was not a line's end.
    fn end(&mut self, console: &mut Console<impl Write>) {
        if let Some(lines) = &mut self.source.lines {
            console.write(|console| lines.finish(console));
            console.flush();
        }
    }
}

#[cfg(test)]
mod tests;
