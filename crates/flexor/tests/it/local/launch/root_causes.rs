//! Tests the report of the first failure: in the table at the end and in the launcher's error file.

use super::folder::{Folder, WAIT};
use super::job::Job;
use super::launcher::{Launcher, launch, standalone};

/// Leaves the error file of torch's `@record` as rank 1 and fails; the others would run for ever.
fn recorded() -> String {
    let report = r#"{"message": {"message": "ValueError: no such digit", "extraInfo": {"py_callstack": "Traceback:\n  in train", "timestamp": "1700000000"}}}"#;
    format!("case $RANK in 1) cat > $TORCHELASTIC_ERROR_FILE <<'END'\n{report}\nEND\nexit 5;; *) {WAIT};; esac")
}

/// The value of a line of the table.
fn row<'a>(table: &'a str, name: &str) -> &'a str {
    let line = table.lines().find(|line| line.trim_start().starts_with(name) && line.contains(" : "));
    line.unwrap_or_else(|| panic!("no {name} in {table}")).split_once(" : ").unwrap().1
}

#[test]
fn the_table_names_the_first_failure_and_its_message() {
    let folder = Folder::new();
    let ended = standalone(&folder, &["--nproc-per-node=3", "--max-restarts=1"], &recorded());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("Root cause (first failure):").count(), 1, "reported once: {}", ended.stderr);
    let (_, table) = ended.stderr.split_once("Root cause").unwrap();
    assert_eq!(row(table, "rank"), "1 (local rank 1)");
    assert_eq!(row(table, "message"), "ValueError: no such digit");
    assert!(row(table, "exit code").starts_with("5 (pid "), "{table}");
    assert!(table.contains("in train"), "the traceback: {table}");
    let report = std::fs::read_to_string(row(table, "error file")).unwrap();
    assert!(report.contains("no such digit"), "{report}");
}

#[test]
fn the_error_file_of_the_launcher_gets_the_first_failure() {
    let folder = Folder::new();
    let file = folder.path().join("launchers-error.json");
    let script = recorded();
    let args = ["--standalone", "--nproc-per-node=2", "--max-restarts=0", "sh", "-c", &script];
    Launcher::start(launch(&folder, args).env("TORCHELASTIC_ERROR_FILE", &file)).wait_for(1);
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(report["message"]["message"], "ValueError: no such digit", "{report}");
    assert_eq!(report["message"]["errorCode"], 5, "{report}");
}

#[test]
fn a_process_ended_by_a_signal_is_reported_with_the_signal() {
    let folder = Folder::new();
    let script = format!("case $RANK in 0) kill -KILL $$;; *) {WAIT};; esac");
    let ended = standalone(&folder, &["--nproc-per-node=2", "--max-restarts=0"], &script);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let (_, table) = ended.stderr.split_once("Root cause").unwrap();
    assert_eq!(row(table, "rank"), "0 (local rank 0)");
    assert!(row(table, "exit code").starts_with("-9 (pid ") && table.contains("SIGKILL"), "{table}");
}

#[test]
fn a_failure_without_a_report_is_told_by_its_last_line_or_says_where_to_look() {
    let folder = Folder::new();
    let ended = standalone(&folder, &["--max-restarts=0"], "echo the real reason >&2; exit 7");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("the real reason\n") || ended.stderr.contains("\nthe real reason\n"));
    let (_, table) = ended.stderr.split_once("Root cause").unwrap();
    assert!(row(table, "exit code").starts_with("7 (pid "), "{table}");
    assert_eq!(row(table, "message"), "exit code 7; the real reason", "{table}");
    let silent = standalone(&folder, &["--max-restarts=0"], "exit 7");
    let (_, table) = silent.stderr.split_once("Root cause").unwrap();
    assert!(row(table, "message").contains("TORCHELASTIC_ERROR_FILE"), "{table}");
}

#[test]
fn a_recovered_failure_is_not_in_the_final_report() {
    let job = Job::start("2", "1");
    let once = job.node(1, &format!("[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 3; echo again >> again; {WAIT}"));
    let fails = "until [ -e again ]; do sleep 0.05; done; exit 4";
    let last = job.node(1, fails);
    let (once, last) = (once.wait_for(1), last.wait_for(1));
    assert!(once.stderr.contains("RestartsExhausted") && !once.stderr.contains("Root cause"), "{}", once.stderr);
    assert!(last.stderr.contains("Root cause"), "{}", last.stderr);
}

#[test]
fn a_run_that_ends_well_leaves_no_error_file_of_the_launcher() {
    let folder = Folder::new();
    let file = folder.path().join("launchers-error.json");
    let script = "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3";
    let args = ["--standalone", "--max-restarts=1", "sh", "-c", script];
    Launcher::start(launch(&folder, args).env("TORCHELASTIC_ERROR_FILE", &file)).wait_for(0);
    assert!(!file.exists());
}

#[test]
fn a_launcher_whose_world_never_forms_reports_the_earlier_failure() {
    let job = Job::start("2", "1");
    let script = "until [ -e other ]; do sleep 0.05; done; exit 3";
    let waiting = Launcher::start(job.command().args(["--rdzv-conf=join_timeout=3", "sh", "-c", script]));
    let lost = job.node(1, &format!("echo > other; {WAIT}"));
    waiting.await_stderr("the program failed at");
    drop(lost);
    let ended = waiting.wait_for(3);
    assert!(ended.stderr.contains("Root cause") && ended.stderr.contains("join_timeout"), "{}", ended.stderr);
}
