//! The error that a container's program has left in its error file, read by whoever runs the container.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::OFlags;

use super::ErrorReport;

/// How much of an error file is read, in bytes; tracebacks may be long.
const LONGEST: u64 = 64 << 10;

/// What an error file tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftError {
    /// One line of a report, or the whole text of any other file.
    pub message: String,
    /// When it happened, in whole seconds; only reports tell it.
    pub at: Option<Timestamp>,
    /// It is the error of a launcher, which follows from the failure of its program if there was one.
    pub is_of_launcher: bool,
}

impl LeftError {
    /// The text of an error file, or what PyTorch's `@record` or a launcher wrote there; none if it is empty.
    pub fn read(path: &Path) -> Option<Self> {
        // A program may have made a pipe; opening it must not wait for a writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        file.metadata().ok().filter(Metadata::is_file)?;
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.trim().is_empty() {
            return None;
        }
        Some(match ErrorReport::parse(text.as_bytes()) {
            Some(report) => Self { message: report.summary(), at: report.at, is_of_launcher: report.is_of_launcher() },
            None => Self { message: text, at: None, is_of_launcher: false },
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn an_error_file_that_is_a_pipe_or_empty_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, empty] = ["pipe", "empty"].map(|name| folder.path().join(name));
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        std::fs::write(&empty, " \n").unwrap();
        assert_eq!([pipe, empty].map(|path| LeftError::read(&path)), [None, None]);
    }

    #[test]
    fn a_report_is_one_line_and_other_text_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("error");
        for (written, message) in [
            (r#"{"message": {"message": "ValueError: no labels\nmore", "extraInfo": {}}}"#, "ValueError: no labels"),
            ("two\nlines", "two\nlines"),
        ] {
            std::fs::write(&path, written).unwrap();
            let left = LeftError::read(&path).unwrap();
            assert_eq!((left.message.as_str(), left.is_of_launcher), (message, false));
        }
    }
}
