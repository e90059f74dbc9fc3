//! Tests failing programs: the launchers restart all workers up to the limit.

use super::folder::{Folder, WAIT};
use super::job::Job;
use super::launcher::{Launcher, launch, standalone};

#[test]
fn a_program_that_fails_once_is_started_again_and_ends_well() {
    let folder = Folder::new();
    let script = "echo start $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3";
    let ended = standalone(&folder, &["--max-restarts=3"], script);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "start 0\nstart 1\n"), "{}", ended.stderr);
}

#[test]
fn when_one_process_fails_all_are_started_again() {
    let folder = Folder::new();
    // Rank 1 fails while rank 0 runs; rank 0 would run for ever.
    let script = format!(
        "echo $RANK $TORCHELASTIC_RESTART_COUNT >> starts; case $RANK$TORCHELASTIC_RESTART_COUNT in \
         10) until grep -q '^0' starts; do sleep 0.05; done; exit 3;; 00) {WAIT};; esac"
    );
    let ended = standalone(&folder, &["--nproc-per-node=2", "--max-restarts=1"], &script);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut starts = folder.lines("starts");
    starts.sort();
    assert_eq!(starts, ["0 0", "0 1", "1 0", "1 1"]);
}

#[test]
fn a_failed_process_on_one_node_restarts_those_of_the_others() {
    let job = Job::start("2", "3");
    let script =
        format!("echo $FLEXOR_INCARNATION $TORCHELASTIC_RESTART_COUNT >> starts; [ -e failed ] && exit 0; {WAIT}");
    let healthy = job.node(2, &script);
    let failing = job.node(1, "[ -e failed ] && exit 0; echo > failed; exit 3");
    healthy.wait_for(0);
    failing.wait_for(0);
    let starts = job.folder.lines("starts");
    let last = starts.last().unwrap();
    assert_eq!(starts.iter().filter(|start| *start == last).count(), 2, "both are in the last world: {starts:?}");
    assert!(last.ends_with(" 1"), "each process sees the failures of all: {starts:?}");
    assert_eq!(job.run()["programFailures"], 1, "{}", job.run());
}

#[test]
fn a_program_that_always_fails_is_restarted_up_to_the_limit() {
    for (allowed, starts) in [("0", 1), ("2", 3)] {
        let folder = Folder::new();
        let ended = standalone(&folder, &["--max-restarts", allowed], "echo start; exit 3");
        assert_eq!((ended.code, ended.stdout.matches("start").count()), (Some(1), starts), "{}", ended.stderr);
        assert!(ended.stderr.contains("RestartsExhausted"), "{}", ended.stderr);
        for failure in 1..starts {
            let message = format!("failed at rank 0 (failure {failure} of {allowed} that are forgiven)");
            assert!(ended.stderr.contains(&message), "{}", ended.stderr);
        }
    }
}

#[test]
fn only_a_program_of_python_is_advised_to_record_its_exceptions() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("train.py"), "raise SystemExit(3)").unwrap();
    let python = Launcher::start(&mut launch(&folder, ["--standalone", "--max-restarts=0", "train.py"])).wait_for(1);
    assert!(python.stderr.contains("@record"), "{}", python.stderr);
    let other = standalone(&folder, &["--max-restarts=0"], "exit 3");
    assert!(!other.stderr.contains("@record") && other.stderr.contains("ERROR_FILE"), "{}", other.stderr);
}

#[test]
fn a_program_that_always_fails_on_one_node_ends_them_all_with_1() {
    let job = Job::start("2", "1");
    let healthy = job.node(1, WAIT);
    let failing = job.node(1, "echo start; exit 3");
    let failed = failing.wait_for(1);
    assert_eq!(failed.stdout.matches("start").count(), 2, "{}", failed.stderr);
    for ended in [failed, healthy.wait_for(1)] {
        assert!(ended.stderr.contains("RestartsExhausted"), "{}", ended.stderr);
    }
    let run = job.run();
    assert_eq!((&run["closed"], &run["programFailures"]), (&true.into(), &2.into()), "{run}");
}

#[test]
fn a_node_that_joins_a_closed_run_reports_it_and_starts_nothing() {
    let job = Job::start("1", "0");
    job.node(1, "exit 3").wait_for(1);
    let late = job.node(1, "echo started").wait_for(1);
    assert!(late.stdout.is_empty() && late.stderr.contains("RestartsExhausted"), "{}", late.stderr);
}

#[test]
fn a_crash_looping_program_leaves_no_node_waiting() {
    let job = Job::start("3", "40");
    let nodes = [job.node(1, WAIT), job.node(1, WAIT), job.node(1, "exit 3")];
    for node in nodes {
        assert!(node.wait_for(1).stderr.contains("RestartsExhausted"));
    }
    assert_eq!(job.run()["programFailures"], 41, "{}", job.run());
}
