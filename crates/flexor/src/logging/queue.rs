//! Lines of a log on their way to standard error, written by a thread of their own, so that nobody who logs ever waits for
//! a reader: a pager that nobody scrolls must not stop a launcher.
//!
//! The queue is short. What does not fit is left out and counted; how much that was stands where it is missing.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// How many lines may wait.
const WAITING: usize = 1024;

/// The queue, for those who log.
#[derive(Debug, Clone)]
pub struct Queue {
    lines: SyncSender<Entry>,
    left_out: Arc<AtomicU64>,
}

/// One writer of the queue; what is written at once is a line.
#[derive(Debug)]
pub struct Line<'a>(&'a Queue);

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// Everything before this is written.
    Mark(SyncSender<()>),
}

impl Queue {
    /// A queue to a stream.
    ///
    /// # Errors
    ///
    /// The system would not start a thread.
    pub fn to(stream: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, receiver) = sync_channel(WAITING);
        let left_out = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&left_out);
        thread::Builder::new().name("log".to_owned()).spawn(move || write(stream, &receiver, &counted))?;
        Ok(Self { lines, left_out })
    }

    /// Waits until all lines are written, but not longer than this.
    pub fn flush(&self, within: Duration) {
        let (mark, written) = sync_channel(1);
        if self.lines.try_send(Entry::Mark(mark)).is_ok() {
            // Where nobody reads, nobody misses them.
            let _ = written.recv_timeout(within);
        }
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.0.lines.try_send(Entry::Line(line.to_owned())) {
            self.0.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes until nobody can log any more. A stream that is closed takes nothing, and that is nobody's concern.
fn write(mut stream: impl Write, entries: &Receiver<Entry>, left_out: &AtomicU64) {
    for entry in entries {
        match entry {
            Entry::Line(line) => {
                let _ = stream.write_all(&line);
            }
            Entry::Mark(written) => {
                let _ = written.send(());
            }
        }
        let missing = left_out.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let _ = writeln!(stream, "{missing} lines of the log were left out here, because nobody read them in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn who_logs_does_not_wait_for_a_reader_and_is_told_what_was_left_out() {
        let (mut reader, writer) = io::pipe().unwrap();
        let queue = Queue::to(writer).unwrap();
        // More than queue and pipe can hold.
        let line = format!("{}\n", "x".repeat(1023));
        for _ in 0..4 * WAITING {
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
        let counts = text.lines().filter_map(|line| line.split_once(" lines of the log were left out"));
        let left_out: usize = counts.map(|(count, _)| count.parse::<usize>().unwrap()).sum();
        assert!(left_out > 0 && written >= WAITING);
        assert_eq!(written + left_out, 4 * WAITING);
    }

    #[test]
    fn what_was_logged_is_written_when_it_was_waited_for() {
        let (mut reader, writer) = io::pipe().unwrap();
        let queue = Queue::to(writer).unwrap();
        queue.make_writer().write_all(b"last words\n").unwrap();
        queue.flush(LONG);
        let mut read = [0; 11];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"last words\n");
    }
}
