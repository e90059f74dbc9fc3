//! The error that a container's program has left in its error file, read by whoever runs the container.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::OFlags;

use super::ErrorReport;

/// How much of an error file is read, in bytes; tracebacks may be long.
const LONGEST: u64 = 64 << 10;

/// So many folders of torchrun's are looked at: it makes one for each restart.
const MOST_FOLDERS: usize = 10_000;

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

    /// The first error of the last attempt that torchrun made of its processes, from the folder of its logs. torchrun
    /// itself passes it on only where it gives up by itself.
    pub fn of_processes(logs: &Path) -> Option<Self> {
        let attempts = folders(logs).into_iter().flat_map(|run| folders(&run));
        let numbered = attempts.filter_map(|attempt| {
            let number: u32 = attempt.file_name()?.to_str()?.strip_prefix("attempt_")?.parse().ok()?;
            Some((number, attempt))
        });
        let mut attempts: Vec<(u32, PathBuf)> = numbered.take(MOST_FOLDERS).collect();
        attempts.sort_unstable();
        attempts.into_iter().rev().find_map(|(_, attempt)| {
            let errors = folders(&attempt).into_iter().filter_map(|process| Self::read(&process.join("error.json")));
            errors.min_by_key(|error| (error.at.is_none(), error.at))
        })
    }
}

/// The folders in a folder, by name.
fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).into_iter().flatten().flatten().take(MOST_FOLDERS);
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut folders: Vec<PathBuf> = entries.filter(is_folder).map(|entry| entry.path()).collect();
    folders.sort();
    folders
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
    fn the_first_error_of_the_last_attempt_is_that_of_the_processes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |attempt: &str, process: &str, message: &str, at: u64| {
            let path = folder.path().join("job_x1").join(attempt).join(process);
            std::fs::create_dir_all(&path).unwrap();
            let extra = format!(r#"{{"timestamp": "{at}"}}"#);
            let report = format!(r#"{{"message": {{"message": "{message}", "extraInfo": {extra}}}}}"#);
            std::fs::write(path.join("error.json"), report).unwrap();
        };
        assert_eq!(LeftError::of_processes(folder.path()), None);
        write("attempt_9", "0", "ValueError: old", 100);
        write("attempt_10", "0", "DistNetworkError: peer", 202);
        write("attempt_10", "1", "ValueError: no labels", 201);
        std::fs::create_dir(folder.path().join("job_x1/attempt_11")).unwrap();
        let error = LeftError::of_processes(folder.path()).unwrap();
        assert_eq!((error.message.as_str(), error.is_of_launcher), ("ValueError: no labels", false));
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
