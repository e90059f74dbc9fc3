//! Why a program failed, in its own words: its error file, its Python exception, or the last line that it printed. Of a
//! program that prints `error: …` with advice below, that line.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flexor_agent::processes::{FailureWatch, PrintedCause, PrintedFailure};
use flexor_agent::workers::LeftError;
use jiff::Timestamp;

/// How far from the end the last line may begin.
const LINE: u64 = 2 << 10;
/// Greater exit codes are those of signals.
const SIGNALS: i32 = 128;

/// What a container left that may tell why it failed.
pub(super) struct ContainerOutput<'a> {
    pub error_file: PathBuf,
    pub log: PathBuf,
    /// The length of the log when the container was started.
    pub log_start: u64,
    /// The container was killed for its memory.
    pub is_out_of_memory: bool,
    pub watch: &'a FailureWatch,
}

/// Why a container failed, on one line, and when.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContainerFailure {
    pub message: String,
    /// None where only the end of the container is known.
    pub at: Option<Timestamp>,
}

impl ContainerOutput<'_> {
    /// Why the container failed: what its program says, before what a launcher around it says, before its last line.
    pub(super) fn failure(&self, exit_code: i32) -> Option<ContainerFailure> {
        // What was printed before does not say that memory ran out.
        if self.is_out_of_memory {
            return None;
        }
        let printed = self.watch.failure();
        // A program that a signal ended printed its exceptions before, and handled them.
        let is_of_signal = exit_code > SIGNALS;
        let printed = printed.filter(|one| !is_of_signal || matches!(one.cause, PrintedCause::Worker { .. }));
        let left = LeftError::read(&self.error_file);
        if let Some(left) = left.as_ref().filter(|left| !left.is_of_launcher) {
            // A report has whole seconds.
            let at = printed.map(|printed| printed.at).or(left.at);
            return Some(ContainerFailure { message: left.message.clone(), at });
        }
        let left = left.map(|left| ContainerFailure { message: left.message, at: left.at });
        let of_launcher = || self.watch.of_launcher().filter(|_| !is_of_signal).map(ContainerFailure::from);
        let last_line = || Some(ContainerFailure { message: of_log(&self.log, self.log_start)?, at: None });
        printed.map(ContainerFailure::from).or(left).or_else(of_launcher).or_else(last_line)
    }
}

impl From<PrintedFailure> for ContainerFailure {
    fn from(printed: PrintedFailure) -> Self {
        Self { message: printed.cause.summary(), at: Some(printed.at) }
    }
}

/// The last line of a log that was `start` bytes long when its program was started.
fn of_log(path: &Path, start: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    // A shorter log was rotated since the start, so all of it is this program's.
    let first = if length < start { 0 } else { start };
    file.seek(SeekFrom::Start(first.max(length.saturating_sub(LINE)))).ok()?;
    let text = text(file.take(LINE))?;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut lines = lines.into_iter();
    let Some(error) = lines.clone().rposition(|line| line.starts_with("error: ")) else {
        return lines.next_back().map(str::to_owned);
    };
    let mut lines = lines.skip(error);
    let error = lines.next()?;
    // Of `error: …:` the object stands on the next line.
    let rest = if error.ends_with(':') { lines.next() } else { None };
    Some([error, rest.unwrap_or_default()].join(" ").trim_end().to_owned())
}

fn text(mut from: impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Some(text).filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_line_is_one_of_this_run() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let last = |bytes: &[u8], start: u64| {
            fs::write(&log, bytes).unwrap();
            of_log(&log, start)
        };
        assert_eq!(last(b"one\ntwo\n\n", 0).as_deref(), Some("two"));
        assert_eq!(last(b"one\ntwo", 4).as_deref(), Some("two"));
        assert_eq!(last(b"one\ntwo\n", 8), None, "both are of an earlier run");
        assert_eq!(last(b"one\n", 100).as_deref(), Some("one"), "the log was rotated since");
        assert_eq!(last(b" \n\n", 0), None);
        let usage = b"begins\nerror: unexpected argument '--bacth'\n\n  tip: a similar one exists\n\nTry '--help'.\n";
        assert_eq!(last(usage, 0).as_deref(), Some("error: unexpected argument '--bacth'"));
        let missing = b"error: the following required arguments were not provided:\n  --test-data <PATH>\n\nUsage: x\n";
        let message = "error: the following required arguments were not provided: --test-data <PATH>";
        assert_eq!(last(missing, 0).as_deref(), Some(message));
        assert_eq!(last(&[b"x".repeat(9000), b"\xff end\n".to_vec()].concat(), 0).map(|line| line.len()), Some(2049));
    }

    /// What a container left, in a folder of its own.
    fn failure(error: Option<&str>, printed: &str, exit_code: i32) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let (error_file, log) = (folder.path().join("error"), folder.path().join("log"));
        if let Some(error) = error {
            fs::write(&error_file, error).unwrap();
        }
        fs::write(&log, printed).unwrap();
        let watch = FailureWatch::default();
        watch.push(printed.as_bytes(), Timestamp::UNIX_EPOCH);
        let is_out_of_memory = exit_code == OUT_OF_MEMORY;
        let output = ContainerOutput { error_file, log, log_start: 0, is_out_of_memory, watch: &watch };
        output.failure(exit_code).map(|failure| failure.message)
    }

    /// An exit code that stands for a container that was killed for its memory.
    const OUT_OF_MEMORY: i32 = 137;
    const EXCEPTION: &str =
        "Traceback (most recent call last):\n  File \"/x/a.py\", line 3, in f\nValueError: no labels\n";

    #[test]
    fn an_error_file_is_cut_and_an_empty_one_is_ignored() {
        assert_eq!(failure(None, "", 1), None);
        assert_eq!(failure(Some("\n"), "", 1), None);
        let long = "ä".repeat(40_000);
        assert_eq!(failure(Some(&long), "", 1).map(|text| text.chars().count()), Some(32 << 10));
    }

    #[test]
    fn a_report_of_torch_is_reduced_to_its_message() {
        for (written, message) in [
            (
                r#"{"message": {"message": "ValueError: no labels", "extraInfo": {"py_callstack": "…"}}}"#,
                "ValueError: no labels",
            ),
            (r#"{"message": "no labels"}"#, "no labels"),
            (r#"{"other": 1}"#, r#"{"other": 1}"#),
            ("plain words", "plain words"),
        ] {
            assert_eq!(failure(Some(written), "on the console", 1).as_deref(), Some(message));
        }
        let report = serde_json::json!({ "message": { "message": "ValueError: x", "extraInfo": {
            "py_callstack": EXCEPTION } } });
        assert_eq!(failure(Some(&report.to_string()), "", 1).as_deref(), Some("ValueError: x (at /x/a.py:3 in f)"));
    }

    #[test]
    fn the_exception_of_the_program_is_told_before_that_of_its_launcher() {
        let exception = Some("ValueError: no labels (at /x/a.py:3 in f)");
        let closed = "Traceback (most recent call last):\n  File \"/e/torch/distributed/run.py\", line 1, in main\n\
                      torch.RendezvousClosedError\n";
        let report = serde_json::json!({ "message": { "message": "RendezvousClosedError: ", "extraInfo": {
            "py_callstack": closed } } });
        let report = report.to_string();
        assert_eq!(failure(Some(&report), &format!("{EXCEPTION}{closed}"), 1).as_deref(), exception);
        assert_eq!(failure(None, &format!("{EXCEPTION}{closed}bye\n"), 1).as_deref(), exception);
        let launchers = failure(Some(&report), closed, 1).unwrap();
        assert!(launchers.starts_with("RendezvousClosedError: (at /e/torch"), "{launchers}");
    }

    #[test]
    fn an_exception_before_a_signal_was_handled() {
        assert_eq!(failure(None, "last words\n", OUT_OF_MEMORY), None, "they do not tell that memory ran out");
        assert_eq!(failure(None, &format!("{EXCEPTION}goes on\n"), 139).as_deref(), Some("goes on"));
    }
}
