//! Groups that failed, and whom the report blames.

use std::time::Duration;

use super::super::error_file::ErrorReport;
use super::*;

/// The exit of a worker, `at` milliseconds after the start.
fn exit(rank: u32, outcome: Outcome, at: u64) -> WorkerExit {
    WorkerExit {
        local_rank: LocalRank(rank),
        rank: Some(GlobalRank(rank + 4)),
        pid: 100 + rank,
        outcome,
        at: after(at),
        ended: false,
        error_file: "none".into(),
        error: None,
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
fn nobody_is_blamed_for_success() {
    assert_eq!(blamed(&[exit(0, Outcome::Code(0), 5), exit(1, Outcome::Code(0), 9)]), None);
    assert_eq!(blamed(&[]), None);
}

#[test]
fn the_earliest_end_is_the_cause() {
    let exits = [exit(0, Outcome::Signal(6), 30), exit(1, Outcome::Signal(11), 20), exit(2, Outcome::Code(1), 40)];
    assert_eq!(blamed(&exits), Some(1));
    let abort = [exit(0, Outcome::Signal(6), 10), reporting(exit(1, Outcome::Code(1), 40), "connection reset", 20)];
    assert_eq!(blamed(&abort), Some(0), "an abort that came first is a cause like any other");
}

#[test]
fn who_has_left_a_report_and_takes_its_time_to_end_failed_before_those_that_it_took_with_it() {
    let victim = [exit(0, Outcome::Code(1), 300)];
    let report = |at: u64| {
        let report = reporting(exit(1, Outcome::Code(1), 0), "out of range", at).error.unwrap();
        [(LocalRank(1), report)].into_iter()
    };
    let first = |local_rank, was_killed| Some(FirstFailure { local_rank: LocalRank(local_rank), was_killed });
    assert_eq!(first_failure(&victim, report(100)), first(1, false));
    assert_eq!(first_failure(&victim, report(400)), first(0, false));
    assert_eq!(first_failure(&[exit(0, Outcome::Signal(9), 300)], report(400)), first(0, true));
    assert_eq!(first_failure(&[exit(0, Outcome::Code(0), 300)], report(100)), None, "nobody has failed yet");
}

#[test]
fn a_report_that_followed_an_end_at_once_is_not_the_cause() {
    let victim = reporting(exit(0, Outcome::Code(1), 300), "connection reset", 17);
    assert_eq!(blamed(&[exit(1, Outcome::Signal(11), 20), victim]), Some(1));
}

#[test]
fn an_error_counts_from_when_it_was_reported() {
    let slow = reporting(exit(0, Outcome::Code(1), 900), "ValueError", 10);
    let victim = reporting(exit(1, Outcome::Code(1), 300), "connection reset", 15);
    assert_eq!(blamed(&[exit(2, Outcome::Signal(6), 200), victim, slow]), Some(0));
}

#[test]
fn whoever_was_asked_to_end_is_no_cause_while_there_is_another() {
    let told = exit(0, Outcome::Signal(15), 10);
    let ended = WorkerExit { ended: true, ..exit(1, Outcome::Signal(9), 20) };
    assert_eq!(blamed(&[told.clone(), ended.clone(), exit(2, Outcome::Code(3), 30)]), Some(2));
    assert_eq!(blamed(&[ended, told]), Some(0), "with nobody else, the first of them is");
}

#[test]
fn an_error_of_its_own_counts_even_when_the_group_was_being_ended() {
    let own = WorkerExit { ended: true, ..reporting(exit(0, Outcome::Code(1), 50), "ValueError", 5) };
    assert_eq!(blamed(&[exit(1, Outcome::Code(1), 20), own]), Some(0));
}

#[test]
fn the_table_names_what_people_look_for() {
    let cause = reporting(exit(1, Outcome::Code(1), 30), "ValueError: no such layer", 12);
    let ended = WorkerExit { ended: true, ..exit(0, Outcome::Signal(15), 60) };
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
    let mut long = reporting(exit(0, Outcome::Code(1), 30), "RecursionError", 12);
    let lines = (0..500).map(|line| format!("line {line}\n")).collect();
    long.error.as_mut().unwrap().traceback = Some(lines);
    let table = FailureReport::new("train.py".to_owned(), "node-1".to_owned(), 1, &[long]).unwrap().to_string();
    assert!(table.contains("    line 19\n    ... 440 more lines in the error file ...\n    line 460\n"), "{table}");
    assert!(table.contains("    line 499\n"));
}

#[test]
fn the_same_is_there_for_programs() {
    let killed = exit(0, Outcome::Signal(9), 30);
    let report = FailureReport::new("train.py".to_owned(), "node-1".to_owned(), 1, &[killed]).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["root_cause"]["exit_code"], -9);
    assert_eq!(json["root_cause"]["signal"], "SIGKILL");
    assert_eq!(json["root_cause"]["time"], "2026-09-21T14:13:20.03Z");
    assert_eq!(serde_json::from_value::<FailureReport>(json).unwrap(), report);
}

#[test]
fn a_command_reads_as_it_would_be_typed() {
    let args = ["train.py", "--name=a b", "", "it's"].map(OsString::from);
    assert_eq!(command_line(OsStr::new("python3"), &args), r"python3 train.py '--name=a b' '' 'it'\''s'");
}

#[test]
fn what_a_terminal_would_obey_is_not_printed() {
    let odd = reporting(exit(0, Outcome::Code(1), 30), "a\u{1b}[2Jb\u{9b}2Jc\u{7}\td", 12);
    let table = FailureReport::new("train.py".to_owned(), "node-1".to_owned(), 1, &[odd]).unwrap().to_string();
    assert!(table.contains("  message    : a\u{fffd}[2Jb\u{fffd}2Jc\u{fffd}\td\n"), "{table}");
    assert!(!table.contains(|letter: char| letter.is_control() && !matches!(letter, '\t' | '\n')), "{table:?}");
}
