//! Error files as torch writes them, as users write them, and malformed ones.

use std::path::PathBuf;
use std::time::Duration;

use super::super::worker::{GlobalRank, LocalRank};
use super::*;
use crate::processes::ExitOutcome;

const RECORDED: &str = r#"{"message": {"message": "ValueError: no such layer", "extraInfo": {"py_callstack":
    "Traceback (most recent call last):\n  File \"train.py\", line 3, in main\nValueError: no such layer\n",
    "timestamp": "1790000000"}}}"#;

fn seconds(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp::from_second(seconds).unwrap())
}

fn report(message: &str) -> ErrorReport {
    ErrorReport { message: message.to_owned(), traceback: None, at: None, error_code: None }
}

fn failed(error_file: PathBuf, outcome: ExitOutcome, error: Option<ErrorReport>) -> WorkerExit {
    let at = Timestamp::from_second(1_790_000_005).unwrap();
    let (local_rank, rank) = (LocalRank(1), Some(GlobalRank(3)));
    WorkerExit {
        local_rank,
        rank,
        pid: 77,
        outcome,
        at,
        during_shutdown: false,
        error_file,
        error,
        last_line: None,
        is_python: true,
    }
}

#[test]
fn a_recorded_exception_has_message_traceback_and_time() {
    let read = ErrorReport::parse(RECORDED.as_bytes()).unwrap();
    assert_eq!(read.message, "ValueError: no such layer");
    assert!(read.traceback.as_ref().unwrap().starts_with("Traceback (most recent call last):\n"));
    assert_eq!(read.at, seconds(1_790_000_000));
    assert_eq!(ErrorReport::parse(read.to_json().as_bytes()), Some(read));
}

#[test]
fn a_message_may_be_a_string_with_a_time_beside_it() {
    let parse = |text: &str| ErrorReport::parse(text.as_bytes());
    assert_eq!(parse(r#"{"message": "boom"}"#), Some(report("boom")));
    for time in ["1790000000", "1790000000.75", r#""1790000000""#, r#"" 1790000000.2 ""#] {
        let read = parse(&format!(r#"{{"message": "boom", "timestamp": {time}}}"#)).unwrap();
        assert_eq!(read.at, seconds(1_790_000_000), "{time}");
    }
}

#[test]
fn odd_shapes_are_accepted_or_ignored() {
    let parse = |text: &str| ErrorReport::parse(text.as_bytes());
    assert_eq!(parse(r#"{"message": {"message": "boom"}}"#), Some(report("boom")));
    assert_eq!(parse(r#"{"message": {"message": [1, 2], "extraInfo": 4}}"#), Some(report("[1,2]")));
    for time in ["1e300", "-1e300", "null", "[]", r#""soon""#, r#""NaN""#] {
        let text = format!(r#"{{"message": {{"message": "boom", "extraInfo": {{"timestamp": {time}}}}}}}"#);
        assert_eq!(parse(&text), Some(report("boom")), "{time}");
    }
    let traceback = parse(r#"{"message": {"extraInfo": {"py_callstack": "at f\nKeyError: 'x'\n"}}}"#).unwrap();
    assert_eq!(traceback.message, "KeyError: 'x'");
    for nothing in ["", "{", "[]", "7", "null", "{}", r#"{"message": 7}"#, r#"{"message": {}}"#, "\u{0}"] {
        assert_eq!(parse(nothing), None, "{nothing:?}");
    }
    assert_eq!(parse(&"[".repeat(100_000)), None);
}

#[test]
fn the_modification_time_is_finer_than_the_timestamp() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("error.json");
    let before = Timestamp::now();
    let at = Timestamp::from_second(before.as_second()).unwrap();
    ErrorReport { at: Some(at), ..report("boom") }.write(&path).unwrap();
    let read = ErrorReport::read(&path).unwrap().at.unwrap();
    // The kernel stamps files with a clock that ticks every few milliseconds.
    assert!(read >= before - Duration::from_millis(50) && read <= Timestamp::now(), "{read} is not near {before}");

    ErrorReport { at: seconds(1_000_000_000), ..report("boom") }.write(&path).unwrap();
    assert_eq!(ErrorReport::read(&path).unwrap().at, seconds(1_000_000_000), "the file was copied later");
}

#[test]
fn only_regular_files_of_moderate_size_are_read() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(ErrorReport::read(&folder.path().join("none")), None);
    assert_eq!(ErrorReport::read(folder.path()), None);
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(ErrorReport::read(&pipe), None);
    assert!(report("boom").write(&pipe).is_err());
    let long = folder.path().join("long");
    std::fs::write(&long, report(&"x".repeat(1 << 20)).to_json()).unwrap();
    assert_eq!(ErrorReport::read(&long), None);
}

#[test]
fn the_root_cause_goes_upwards_with_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let (own, upper) = (folder.path().join("error.json"), folder.path().join("upper.json"));
    std::fs::write(&own, r#"{"message": {"message": "boom", "mine": 1}, "theirs": 2}"#).unwrap();
    std::fs::write(&upper, "an older and longer text that must not shine through the new one ".repeat(9)).unwrap();
    let exit = failed(own.clone(), ExitOutcome::Signal(11), ErrorReport::read(&own));
    propagate(&exit, &upper).unwrap();
    let text = std::fs::read_to_string(&upper).unwrap();
    assert_eq!(text, r#"{"message":{"message":"boom","mine":1,"errorCode":-11},"theirs":2}"#);
}

#[test]
fn a_worker_without_a_report_is_passed_upwards_too() {
    let folder = tempfile::tempdir().unwrap();
    let upper = folder.path().join("upper.json");
    propagate(&failed(folder.path().join("none"), ExitOutcome::Signal(9), None), &upper).unwrap();
    let read = ErrorReport::parse(&std::fs::read(&upper).unwrap()).unwrap();
    assert!(read.message.starts_with("signal 9 (SIGKILL); "), "{}", read.message);
    assert_eq!((read.at, read.error_code), (seconds(1_790_000_005), Some(-9)));
}
