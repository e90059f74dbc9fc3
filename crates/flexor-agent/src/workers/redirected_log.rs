//! The file to which a worker writes its standard error by itself. It is searched for the reason of a failure once the
//! worker has ended.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use jiff::Timestamp;
use rustix::fs::OFlags;

use crate::processes::FailureWatch;

/// How far from the end of the file the search begins, in bytes.
const TAIL: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct RedirectedLog {
    path: PathBuf,
    /// The length of the file when the worker was started.
    start: u64,
}

impl RedirectedLog {
    /// The log of a worker that is about to start.
    pub(super) fn new(path: PathBuf) -> Self {
        let start = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        Self { path, start }
    }

    /// Shows the end of the log to `watch`, as if it was printed at this time.
    pub(super) fn search(&self, watch: &FailureWatch, at: Timestamp) {
        match self.tail() {
            Ok(tail) => {
                watch.push(&tail, at);
                // The last line may have no end.
                watch.push(b"\n", at);
            }
            Err(error) => tracing::debug!(path = %self.path.display(), %error, "cannot read a log"),
        }
    }

    fn tail(&self) -> io::Result<Vec<u8>> {
        // The program may have put a pipe in its place; opening it must not wait for a writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut file = File::options().read(true).custom_flags(flags).open(&self.path)?;
        let length = file.metadata().ok().filter(Metadata::is_file).map_or(0, |metadata| metadata.len());
        let first = self.start.max(length.saturating_sub(TAIL));
        file.seek(SeekFrom::Start(first))?;
        let mut tail = Vec::new();
        file.take(length.saturating_sub(first)).read_to_end(&mut tail)?;
        if first > self.start {
            // The first line is cut.
            let line = tail.iter().position(|byte| *byte == b'\n').map_or(tail.len(), |end| end + 1);
            tail.drain(..line);
        }
        Ok(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a log that had `earlier` in it when the worker was started.
    fn found(earlier: &str, written: &str) -> (Option<String>, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stderr.log");
        fs::write(&path, earlier).unwrap();
        let log = RedirectedLog::new(path.clone());
        fs::write(&path, format!("{earlier}{written}")).unwrap();
        let watch = FailureWatch::default();
        log.search(&watch, Timestamp::UNIX_EPOCH);
        (watch.failure().map(|failure| failure.cause.summary()), watch.last_line())
    }

    const EXCEPTION: &str = "Traceback (most recent call last):\n  File \"/x/a.py\", line 3, in f\nValueError: bad\n";

    #[test]
    fn the_reason_is_what_this_start_has_written() {
        let reason = || Some("ValueError: bad (at /x/a.py:3 in f)".to_owned());
        assert_eq!(found("", EXCEPTION), (reason(), Some("ValueError: bad".to_owned())));
        assert_eq!(found(EXCEPTION, ""), (None, None));
        assert_eq!(found(EXCEPTION, "error: no end"), (None, Some("error: no end".to_owned())));
        let long = format!("{}\n{EXCEPTION}", "x".repeat(3 << 16));
        assert_eq!(found("", &long).0, reason());
    }

    #[test]
    fn a_log_that_is_missing_has_no_reason() {
        let watch = FailureWatch::default();
        RedirectedLog::new("/no/such/file".into()).search(&watch, Timestamp::UNIX_EPOCH);
        assert_eq!(watch.last_line(), None);
    }
}
