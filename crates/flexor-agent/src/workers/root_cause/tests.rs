//! Failed groups, and the worker that the report names as the root cause.

use std::time::Duration;

use super::super::error_file::ErrorReport;
use super::*;

/// The exit of a worker, `at` milliseconds after the start.
fn exit(rank: u32, outcome: ExitOutcome, at: u64) -> WorkerExit {
    WorkerExit {
        local_rank: LocalRank(rank),
        rank: Some(GlobalRank(rank + 4)),
        pid: 100 + rank,
        outcome,
        at: after(at),
        during_shutdown: false,
        error_file: "none".into(),
        error: None,
        last_line: None,
        is_python: true,
    }
}

fn after(millis: u64) -> Timestamp {
    Timestamp::from_second(1_790_000_000).unwrap() + Duration::from_millis(millis)
}

fn reporting(exit: WorkerExit, message: &str, at: u64) -> WorkerExit {
    let traceback = Some(format!("Traceback (most recent call last):\n  File \"train.py\", line 3\n{message}\n"));
    let report = ErrorReport { message: message.to_owned(), traceback, at: Some(after(at)), error_code: None };
    WorkerExit { error: Some(report), ..exit }
}

fn blamed(exits: &[WorkerExit]) -> Option<u32> {
    let report = FailureReport::new("train.py".to_owned(), "node-1".to_owned(), exits.len(), exits);
    let root = root_cause(exits).map(|exit| exit.local_rank);
    assert_eq!(report.map(|report| report.root_cause.local_rank), root);
    root.map(|rank| rank.0)
}

#[test]
fn success_has_no_root_cause() {
    assert_eq!(blamed(&[exit(0, ExitOutcome::Code(0), 5), exit(1, ExitOutcome::Code(0), 9)]), None);
    assert_eq!(blamed(&[]), None);
}

#[test]
fn the_earliest_end_is_the_cause() {
    let exits =
        [exit(0, ExitOutcome::Signal(6), 30), exit(1, ExitOutcome::Signal(11), 20), exit(2, ExitOutcome::Code(1), 40)];
    assert_eq!(blamed(&exits), Some(1));
    let abort =
        [exit(0, ExitOutcome::Signal(6), 10), reporting(exit(1, ExitOutcome::Code(1), 40), "connection reset", 20)];
    assert_eq!(blamed(&abort), Some(0), "an abort that came first is a cause like any other");
}

#[test]
fn a_slow_worker_with_an_earlier_report_failed_before_its_victims() {
    let victim = [exit(0, ExitOutcome::Code(1), 300)];
    let report = |at: u64| {
        let report = reporting(exit(1, ExitOutcome::Code(1), 0), "out of range", at).error.unwrap();
        [(LocalRank(1), report)].into_iter()
    };
    let first = |local_rank, was_killed| Some(FirstFailure { local_rank: LocalRank(local_rank), was_killed });
    assert_eq!(first_failure(&victim, report(100)), first(1, false));
    assert_eq!(first_failure(&victim, report(400)), first(0, false));
    assert_eq!(first_failure(&[exit(0, ExitOutcome::Signal(9), 300)], report(400)), first(0, true));
    assert_eq!(first_failure(&[exit(0, ExitOutcome::Code(0), 300)], report(100)), None, "no worker has failed yet");
}

#[test]
fn a_report_that_followed_an_end_at_once_is_not_the_cause() {
    let victim = reporting(exit(0, ExitOutcome::Code(1), 300), "connection reset", 17);
    assert_eq!(blamed(&[exit(1, ExitOutcome::Signal(11), 20), victim]), Some(1));
}

#[test]
fn an_error_counts_from_when_it_was_reported() {
    let slow = reporting(exit(0, ExitOutcome::Code(1), 900), "ValueError", 10);
    let victim = reporting(exit(1, ExitOutcome::Code(1), 300), "connection reset", 15);
    assert_eq!(blamed(&[exit(2, ExitOutcome::Signal(6), 200), victim, slow]), Some(0));
}

#[test]
fn a_requested_exit_is_the_cause_only_if_there_is_no_other() {
    let terminated = exit(0, ExitOutcome::Signal(15), 10);
    let ended = WorkerExit { during_shutdown: true, ..exit(1, ExitOutcome::Signal(9), 20) };
    assert_eq!(blamed(&[terminated.clone(), ended.clone(), exit(2, ExitOutcome::Code(3), 30)]), Some(2));
    assert_eq!(blamed(&[ended, terminated]), Some(0), "without another failure, the first of them is the cause");
}

#[test]
fn an_error_of_its_own_counts_even_when_the_group_was_being_ended() {
    let own = WorkerExit { during_shutdown: true, ..reporting(exit(0, ExitOutcome::Code(1), 50), "ValueError", 5) };
    assert_eq!(blamed(&[exit(1, ExitOutcome::Code(1), 20), own]), Some(0));
}

#[test]
fn the_table_shows_the_fields_of_torchruns() {
    let cause = reporting(exit(1, ExitOutcome::Code(1), 30), "ValueError: no such layer", 12);
    let ended = WorkerExit { during_shutdown: true, ..exit(0, ExitOutcome::Signal(15), 60) };
    let report = FailureReport::new("python3 train.py".to_owned(), "node-1".to_owned(), 3, &[ended, cause]).unwrap();
    let expected = "\
================================================================
python3 train.py FAILED (2 of 3 workers)
----------------------------------------------------------------
Root cause (first failure):
  time       : 2026-09-21T14:13:20.012Z
  host       : node-1
  rank       : 5 (local rank 1)
  exit code  : 1 (pid 101)
  message    : ValueError: no such layer
  traceback  :
    Traceback (most recent call last):
      File \"train.py\", line 3
    ValueError: no such layer
----------------------------------------------------------------
Other failures:
  2026-09-21T14:13:20.060Z  rank 4 (local rank 0)  signal 15 (SIGTERM), after the launcher began to end the group
================================================================";
    assert_eq!(report.to_string(), expected);
}

#[test]
fn a_long_traceback_keeps_its_ends() {
    let mut long = reporting(exit(0, ExitOutcome::Code(1), 30), "RecursionError", 12);
    let lines = (0..500).map(|line| format!("line {line}\n")).collect();
    long.error.as_mut().unwrap().traceback = Some(lines);
    let table = FailureReport::new("train.py".to_owned(), "node-1".to_owned(), 1, &[long]).unwrap().to_string();
    assert!(table.contains("    line 19\n    ... 440 more lines in the error file ...\n    line 460\n"), "{table}");
    assert!(table.contains("    line 499\n"));
}

#[test]
fn the_report_is_also_json() {
    let killed = exit(0, ExitOutcome::Signal(9), 30);
    let report = FailureReport::new("train.py".to_owned(), "node-1".to_owned(), 1, &[killed]).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["root_cause"]["exit_code"], -9);
    assert_eq!(json["root_cause"]["signal"], "SIGKILL");
    assert_eq!(json["root_cause"]["time"], "2026-09-21T14:13:20.03Z");
    assert_eq!(serde_json::from_value::<FailureReport>(json).unwrap(), report);
}

#[test]
fn a_command_is_quoted_for_a_shell() {
    let args = ["train.py", "--name=a b", "", "it's"].map(OsString::from);
    assert_eq!(command_line(OsStr::new("python3"), &args), r"python3 train.py '--name=a b' '' 'it'\''s'");
}

#[test]
fn control_characters_are_not_printed() {
    let odd = reporting(exit(0, ExitOutcome::Code(1), 30), "a\u{1b}[2Jb\u{9b}2Jc\u{7}\td", 12);
    let table = FailureReport::new("train.py".to_owned(), "node-1".to_owned(), 1, &[odd]).unwrap().to_string();
    assert!(table.contains("  message    : a\u{fffd}[2Jb\u{fffd}2Jc\u{fffd}\td\n"), "{table}");
    assert!(!table.contains(|letter: char| letter.is_control() && !matches!(letter, '\t' | '\n')), "{table:?}");
}
