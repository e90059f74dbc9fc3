//! One of our own two streams, as the place where the lines of several programs come out.

use std::io::{self, BufWriter, Write};
use std::thread;
use std::time::Duration;

/// What is written at once.
const BUFFER: usize = 64 << 10;

/// One of our streams; `None` once nobody reads it.
pub(super) struct Console<W: Write>(Option<BufWriter<Patient<W>>>);

impl<W: Write> Console<W> {
    pub(super) fn new(out: W) -> Self {
        Self(Some(BufWriter::with_capacity(BUFFER, Patient(out))))
    }

    pub(super) fn write(&mut self, write: impl FnOnce(&mut BufWriter<Patient<W>>) -> io::Result<()>) {
        if let Some(Err(error)) = self.0.as_mut().map(write) {
            tracing::warn!(%error, "the console cannot be written any more; log files go on");
            // What is buffered cannot be written either, and must not be tried again when the buffer is dropped.
            if let Some(console) = self.0.take() {
                _ = console.into_parts();
            }
        }
    }

    pub(super) fn flush(&mut self) {
        self.write(BufWriter::flush);
    }
}

/// A writer that waits where the stream would not: a program that shares our console may have made it
/// non-blocking for all.
pub(super) struct Patient<W>(W);

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
