//! A queue of log lines that a thread writes to standard error. Logging never waits for a reader: a pager that is not
//! scrolled must not stop a launcher.
//!
//! The queue is bounded. Lines that do not fit are dropped and counted, and a line in their place says how many.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Largest number of queued lines.
const CAPACITY: usize = 1024;

/// The sending side of the queue.
#[derive(Debug, Clone)]
pub struct LogQueue {
    lines: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

/// A writer into the queue. Each write is one line.
#[derive(Debug)]
pub struct LineWriter<'a>(&'a LogQueue);

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// The thread answers when all entries before this one are written.
    Flush(SyncSender<()>),
}

impl LogQueue {
    /// Starts the thread that writes to a stream.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub fn to(stream: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, receiver) = sync_channel(CAPACITY);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        thread::Builder::new().name("log".to_owned()).spawn(move || write(stream, &receiver, &counted))?;
        Ok(Self { lines, dropped })
    }

    /// Waits until all lines are written, or until the timeout.
    pub fn flush(&self, timeout: Duration) {
        let (done, written) = sync_channel(1);
        if self.lines.try_send(Entry::Flush(done)).is_ok() {
            let _ = written.recv_timeout(timeout);
        }
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self)
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.0.lines.try_send(Entry::Line(line.to_owned())) {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes entries until all senders are dropped. Ignores errors of a closed stream.
fn write(mut stream: impl Write, entries: &Receiver<Entry>, dropped: &AtomicU64) {
    for entry in entries {
        match entry {
            Entry::Line(line) => {
                let _ = stream.write_all(&line);
            }
            Entry::Flush(done) => {
                let _ = done.send(());
            }
        }
        let missing = dropped.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let _ =
                writeln!(stream, "{missing} lines of the log were dropped here, because they were not read in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn logging_does_not_wait_for_a_reader_and_counts_dropped_lines() {
        let (mut reader, writer) = io::pipe().unwrap();
        let queue = LogQueue::to(writer).unwrap();
        // More than queue and pipe can hold.
        let line = format!("{}\n", "x".repeat(1023));
        for _ in 0..4 * CAPACITY {
            queue.make_writer().write_all(line.as_bytes()).unwrap();
        }
        queue.flush(Duration::from_millis(10));
        let reading = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        drop(queue);
        let text = reading.join().unwrap();
        let written = text.matches(&line).count();
        let counts = text.lines().filter_map(|line| line.split_once(" lines of the log were dropped"));
        let dropped: usize = counts.map(|(count, _)| count.parse::<usize>().unwrap()).sum();
        assert!(dropped > 0 && written >= CAPACITY);
        assert_eq!(written + dropped, 4 * CAPACITY);
    }

    #[test]
    fn a_flush_waits_until_lines_are_written() {
        let (mut reader, writer) = io::pipe().unwrap();
        let queue = LogQueue::to(writer).unwrap();
        queue.make_writer().write_all(b"last words\n").unwrap();
        queue.flush(LONG);
        let mut read = [0; 11];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"last words\n");
    }
}
