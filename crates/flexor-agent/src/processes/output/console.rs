//! One of our own two streams, to which the lines of several programs are written.

use std::io::{self, BufWriter, Write};
use std::thread;
use std::time::Duration;

/// Buffer size in bytes.
const BUFFER: usize = 64 << 10;

/// One of our streams; `None` once it cannot be written any more.
pub(super) struct Console<W: Write>(Option<BufWriter<BlockingWriter<W>>>);

impl<W: Write> Console<W> {
    pub(super) fn new(out: W) -> Self {
        Self(Some(BufWriter::with_capacity(BUFFER, BlockingWriter(out))))
    }

    pub(super) fn write(&mut self, write: impl FnOnce(&mut BufWriter<BlockingWriter<W>>) -> io::Result<()>) {
        if let Some(Err(error)) = self.0.as_mut().map(write) {
            tracing::warn!(%error, "the console cannot be written any more; log files go on");
            // The buffered bytes cannot be written either. Dropping the buffer must not try again.
            if let Some(console) = self.0.take() {
                _ = console.into_parts();
            }
        }
    }

    pub(super) fn flush(&mut self) {
        self.write(BufWriter::flush);
    }
}

/// A writer that waits where the stream would not block: a program that shares our console may have made it non-blocking
/// for all.
pub(super) struct BlockingWriter<W>(W);

impl<W: Write> Write for BlockingWriter<W> {
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
