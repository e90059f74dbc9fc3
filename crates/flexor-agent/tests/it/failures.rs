//! Workers that fail, and the reports about them.

use flexor_agent::workers::{ErrorReport, ExitOutcome as Exit};

use crate::launch::{Ended, Launch};

/// The error file of a worker, read.
fn error_file(ended: &Ended, local_rank: u32) -> Option<ErrorReport> {
    ended.log(local_rank, "error.json").and_then(|text| ErrorReport::parse(text.as_bytes()))
}

#[test]
fn a_worker_that_dies_by_a_signal_gets_an_error_file() {
    let ended = Launch::sh(&["kill -SEGV $$"]).run();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Signal(11));
    assert_eq!(ended.outcome.exits[0].error, None, "it wrote no report");
    let report = error_file(&ended, 0).unwrap();
    assert!(report.message.starts_with("signal 11 (SIGSEGV); "), "{}", report.message);
    assert_eq!(report.error_code, Some(-11));
    let failure = ended.outcome.report.unwrap();
    assert_eq!((failure.root_cause.exit_code, failure.root_cause.rank.map(|rank| rank.0)), (-11, Some(10)));
    assert_eq!(failure.command, "sh -c 'kill -SEGV $$'");
}

#[test]
fn a_signal_without_a_name_is_reported_by_its_number() {
    let ended = Launch::python("import os; os.kill(os.getpid(), 40)").run();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Signal(40));
    assert!(ended.outcome.report.unwrap().root_cause.message.starts_with("signal 40; "));
}

#[test]
fn a_worker_that_succeeds_has_no_error_file() {
    let ended = Launch::sh(&["exit 0"]).run();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Code(0));
    assert_eq!(ended.log(0, "error.json"), None);
    assert_eq!(ended.outcome.report, None);
}

/// Writes an error file as torch's `@record` does, and fails.
const RECORDS: &str = r#"
import json, os, sys, time
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    extra = {"py_callstack": "Traceback\nValueError: bad\n", "timestamp": str(int(time.time()))}
    json.dump({"message": {"message": "ValueError: bad", "extraInfo": extra}}, file)
sys.exit(1)
"#;

#[test]
fn a_recorded_error_is_reported_and_passed_upwards() {
    let launch = Launch::python(RECORDS);
    let upper = launch.path("upper.json");
    let ended = launch.with(|scenario| scenario.error_file = Some(upper)).run();
    let report = ended.outcome.report.as_ref().unwrap();
    assert_eq!(report.root_cause.message, "ValueError: bad");
    assert_eq!(report.root_cause.traceback.as_deref(), Some("Traceback\nValueError: bad\n"));
    let exit = &ended.outcome.exits[0];
    assert!(report.root_cause.time <= exit.at, "the error came before the end");
    assert_eq!(report.root_cause.error_file.as_ref(), Some(&exit.error_file));
    let upper = ended.text("upper.json").unwrap();
    assert_eq!(ErrorReport::parse(upper.as_bytes()).unwrap().error_code, Some(1));
}

#[test]
fn the_first_of_three_failures_is_the_root_cause() {
    // The others wait until the launcher has seen the end of the first: until then its process id is taken.
    let wait = "until read first < $NOTES/first; do sleep 0.01; done 2> /dev/null; \
                while kill -0 $first 2> /dev/null; do sleep 0.01; done";
    let aborts = format!("{wait}; kill -ABRT $$");
    let reports =
        format!("{wait}; echo '{{\"message\": \"connection reset by peer\"}}' > $TORCHELASTIC_ERROR_FILE; exit 1");
    let first = "echo $$ > $NOTES/first; exit 7";
    let ended = Launch::sh(&[&aborts, first, &reports]).with(|scenario| scenario.ends_on_failure = false).run();
    let report = ended.outcome.report.as_ref().unwrap();
    assert_eq!((report.root_cause.local_rank.0, report.root_cause.exit_code), (1, 7));
    let mut others: Vec<_> = report.others.iter().map(|other| (other.local_rank.0, other.exit_code)).collect();
    others.sort_unstable();
    assert_eq!(others, [(0, -6), (2, 1)]);
    assert!(report.to_string().contains("FAILED (3 of 3 workers)"), "{report}");
}

#[test]
fn workers_that_the_launcher_ends_are_not_the_cause() {
    let ended = Launch::sh(&["exec sleep 600", "exit 3", "exec sleep 600"]).run();
    let report = ended.outcome.report.as_ref().unwrap();
    assert_eq!((report.root_cause.local_rank.0, report.root_cause.exit_code), (1, 3));
    assert_eq!(report.others.len(), 2);
    assert!(report.others.iter().all(|other| other.ended_by_launcher && other.exit_code == -15), "{report}");
    assert_eq!(ended.log(0, "error.json"), None, "they did not fail");
}

#[test]
fn a_redirected_log_tells_the_cause() {
    let raises = "import sys\nprint('begins', file=sys.stderr)\nraise ValueError('no labels')";
    let ended = Launch::python(raises).with(|scenario| scenario.redirects = "3".to_owned()).run();
    let report = ended.outcome.report.as_ref().unwrap();
    assert_eq!(report.root_cause.message, "ValueError: no labels");
    assert!(report.root_cause.traceback.as_ref().unwrap().starts_with("Traceback (most recent call last)"), "{report}");
    assert_eq!(error_file(&ended, 0).unwrap().message, "ValueError: no labels");

    let refuses = "echo \"error: unexpected argument '--bacth'\" >&2; exit 2";
    let ended = Launch::sh(&[refuses]).with(|scenario| scenario.redirects = "2".to_owned()).run();
    assert_eq!(ended.outcome.exits[0].last_line.as_deref(), Some("error: unexpected argument '--bacth'"));
}
