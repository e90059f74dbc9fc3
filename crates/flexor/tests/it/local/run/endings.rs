//! Tests jobs that end without a signal: their output, exit code, and leftovers.

use std::fs;

use regex::Regex;
use serde_json::json;

use super::super::data::report::WrittenRecords;
use super::cluster::{Workspace, job_of, job_with};
use crate::program::root;

/// The job of the README.
pub const ANY_PROGRAM: &str = "examples/any-program/job.yaml";

#[test]
fn the_first_job_of_the_guide_prints_what_the_guide_shows() {
    let workspace = Workspace::new();
    let ended = workspace.run(&[ANY_PROGRAM]).wait_for(0);
    assert_eq!(ended.stderr, "");
    assert_eq!(without_times(&ended.stdout), without_times(&first_listing_of_the_guide()), "{}", ended.stdout);
    let written = WrittenRecords::read(&workspace.folder);
    assert_eq!((written.records(), written.repeats()), (1000, 0));
    workspace.assert_nothing_is_left_of(&[]);
}

fn first_listing_of_the_guide() -> String {
    let guide = fs::read_to_string(root().join("docs/guide/laptop.md")).unwrap();
    let (_, after) = guide.split_once("```text\n").unwrap();
    after.split_once("```").unwrap().0.to_owned()
}

/// The lines, sorted because workers may end in any order, and without times.
fn without_times(text: &str) -> Vec<String> {
    let clock = Regex::new(r"\d+\.\d+s|\(\d+ %\)").unwrap();
    let mut lines: Vec<String> = text.lines().map(|line| clock.replace_all(line.trim(), "T").into_owned()).collect();
    lines.sort();
    lines
}

#[test]
fn a_program_that_always_fails_fails_the_job_with_its_reason() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("fails", 1, "echo life >> lives; echo 'cannot open the data' >&2; exit 3"));
    let ended = workspace.run(&[&job]).wait_for(1);
    let last = ended.stdout.lines().last().unwrap();
    for message in ["default/fails: Failed", "exit code 3", "cannot open the data"] {
        assert!(last.contains(message), "{message} is not in {last}");
    }
    assert_eq!(workspace.folder.lines("lives").len(), 4, "once, and three more times: {}", ended.stdout);
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn an_init_container_that_always_fails_fails_the_job_with_its_reason() {
    let workspace = Workspace::new();
    let mut job = job_of("fails", 1, "echo never >> lives");
    let script = "echo first >> lives; echo 'no disk today' >&2; exit 7";
    job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["initContainers"] =
        json!([{ "name": "data", "image": "any:image", "command": ["sh", "-c", script] }]);
    let job = workspace.manifest(&job);
    let ended = workspace.run(&[&job]).wait_for(1);
    let last = ended.stdout.lines().last().unwrap();
    for message in ["default/fails: Failed", "exit code 7", "init container data: no disk today"] {
        assert!(last.contains(message), "{message} is not in {last}");
    }
    assert_eq!(workspace.folder.lines("lives"), ["first"; 4], "once, and three more times: {}", ended.stdout);
}

#[test]
fn a_program_that_always_fails_under_a_launcher_says_why_and_its_logs_are_kept() {
    let workspace = Workspace::new();
    let container = json!({
        "name": "elasticjob-worker",
        "image": "any:image",
        "command": ["flexor", "launch", "sh", "-c", "echo 'cannot open the data'; exit 3"],
    });
    let job = workspace.manifest(&job_with("fails", 1, &container));
    let ended = workspace.run(&[&job]).wait_for(1);
    let last = ended.stdout.lines().last().unwrap();
    assert!(last.contains("RestartsExhausted: the program failed 4 times") && last.contains("exit code 3"), "{last}");
    assert!(last.ends_with("pods started again: 0") && !ended.stdout.contains("started again  "), "{}", ended.stdout);
    let failures = ended.stdout.lines().filter(|line| line.contains("ProgramFailed")).count();
    assert!((1..=4).contains(&failures), "{}", ended.stdout);
    let log = workspace.state_dir().logs_of_last_failure().join("fails-worker-0/elasticjob-worker.log");
    assert!(fs::read_to_string(log).unwrap().contains("cannot open the data"));
}

#[test]
fn a_command_that_does_not_exist_is_reported_in_one_line() {
    let workspace = Workspace::new();
    let container = json!({ "name": "elasticjob-worker", "command": ["no-such-program"] });
    let job = workspace.manifest(&job_with("missing", 1, &container));
    let ended = workspace.run(&[&job]).wait_for(1);
    let message =
        "no command 'no-such-program': no folder of PATH has it; check the spelling, install it, or give its path";
    assert!(ended.stdout.lines().last().unwrap().contains(message), "{}", ended.stdout);
}

#[test]
fn two_jobs_run_at_once_and_both_decide_the_exit_code() {
    let workspace = Workspace::new();
    let meet = |own: &str, other: &str, code: u32| {
        format!(
            "touch {own}; n=0; while [ ! -e {other} ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n+1)); done; exit {code}"
        )
    };
    let good = workspace.manifest(&job_of("good", 2, &meet("a", "b", 0)));
    let also_good = workspace.manifest(&job_of("also-good", 2, &meet("b", "a", 0)));
    let ended = workspace.run(&[&good, &also_good]).wait_for(0);
    for job in ["default/good: Succeeded", "default/also-good: Succeeded"] {
        assert!(ended.stdout.contains(job), "{}", ended.stdout);
    }
    let bad = workspace.manifest(&job_of("bad", 1, "exit 1"));
    let ended = workspace.run(&[&good, &bad]).wait_for(1);
    for job in ["default/good: Succeeded", "default/bad: Failed"] {
        assert!(ended.stdout.contains(job), "{}", ended.stdout);
    }
}

#[test]
fn an_invalid_manifest_is_refused_before_anything_runs() {
    let workspace = Workspace::new();
    let good = workspace.manifest(&job_of("good", 1, "touch never"));
    let mut bad = job_of("bad", 1, "true");
    bad["spec"]["minReplicas"] = json!("many");
    let bad = workspace.manifest(&bad);
    let ended = workspace.run(&[&good, &bad]).wait_for(1);
    assert!(ended.stderr.contains("bad.json:1:114: error:"), "{}", ended.stderr);
    assert!(!workspace.folder.path().join("never").exists() && !workspace.state_dir().path().exists());
}

#[test]
fn a_program_finds_its_pod_in_its_environment() {
    let workspace = Workspace::new();
    let script = "echo $POD_NAME $POD_NAMESPACE $GLOO_SOCKET_IFNAME ${FLEXOR_STATE:-clean} >> told
        [ $POD_IP = $PET_LOCAL_ADDR ] && case $PET_RDZV_ENDPOINT in $POD_IP:*) echo own sidecar >> told ;; esac";
    let job = workspace.manifest(&job_of("told", 1, script));
    workspace.run(&[&job]).wait_for(0);
    assert_eq!(workspace.folder.lines("told"), ["told-worker-0 default lo clean", "own sidecar"]);
}
