//! Why a program failed, in its own words: its error file, else the last line that it printed. Of a program that prints
//! `error: …` with advice below, that line.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use flexor_agent::workers::ErrorReport;

/// How much of an error file is read; tracebacks may be long.
const ERROR: u64 = 64 << 10;
/// How far from the end the last line may begin.
const LINE: u64 = 2 << 10;

/// The text of an error file, or the message in it where PyTorch's `@record` wrote it.
pub(super) fn of_error_file(path: &Path) -> Option<String> {
    let text = text(File::open(path).ok()?.take(ERROR))?;
    Some(ErrorReport::parse(text.as_bytes()).map_or(text, |report| report.message))
}

/// The last line of a log that was `start` bytes long when its program was started.
pub(super) fn of_log(path: &Path, start: u64) -> Option<String> {
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

    #[test]
    fn an_error_file_is_cut_and_an_empty_one_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("error");
        assert_eq!(of_error_file(&file), None);
        fs::write(&file, "\n").unwrap();
        assert_eq!(of_error_file(&file), None);
        fs::write(&file, "ä".repeat(40_000)).unwrap();
        assert_eq!(of_error_file(&file).map(|text| text.chars().count()), Some(32 << 10));
    }

    #[test]
    fn a_report_of_torch_is_reduced_to_its_message() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("error");
        for (written, message) in [
            (
                r#"{"message": {"message": "ValueError: no labels", "extraInfo": {"py_callstack": "…"}}}"#,
                "ValueError: no labels",
            ),
            (r#"{"message": "no labels"}"#, "no labels"),
            (r#"{"other": 1}"#, r#"{"other": 1}"#),
            ("plain words", "plain words"),
        ] {
            fs::write(&file, written).unwrap();
            assert_eq!(of_error_file(&file).as_deref(), Some(message));
        }
    }
}
