//! Jobs that end by themselves: what is printed, with which code, and what is left.

use serde_json::json;

use super::super::data::report::Written;
use super::cluster::{Place, job_of, job_with};

/// The job of the README.
pub const ANY_PROGRAM: &str = "examples/any-program/job.yaml";

#[test]
fn the_first_job_of_the_readme_writes_every_record_once() {
    let place = Place::new();
    let ended = place.run(&[ANY_PROGRAM]).wait_for(0);
    let written = Written::read(&place.folder);
    assert_eq!((written.records(), written.repeats()), (1000, 0));
    let last = ended.stdout.lines().last().unwrap();
    assert!(last.starts_with("default/any-program: Succeeded"), "{}", ended.stdout);
    assert_eq!(ended.stderr, "");
    place.assert_nothing_is_left_of(&[]);
}

#[test]
fn a_program_that_always_fails_fails_the_job_with_its_reason() {
    let place = Place::new();
    let job = place.manifest(&job_of("fails", 1, "echo life >> lives; echo 'cannot open the data' >&2; exit 3"));
    let ended = place.run(&[&job]).wait_for(1);
    let last = ended.stdout.lines().last().unwrap();
    for told in ["default/fails: Failed", "exit code 3", "cannot open the data"] {
        assert!(last.contains(told), "{told} is not in {last}");
    }
    assert_eq!(place.folder.lines("lives").len(), 4, "once, and three more times: {}", ended.stdout);
    place.assert_nothing_is_left_of(&[]);
}

#[test]
fn a_command_that_does_not_exist_is_told_in_a_line() {
    let place = Place::new();
    let container = json!({ "name": "elasticjob-worker", "command": ["no-such-program"] });
    let job = place.manifest(&job_with("missing", 1, &container));
    let ended = place.run(&[&job]).wait_for(1);
    let told =
        "no command 'no-such-program': no folder of PATH has it; check the spelling, install it, or give its path";
    assert!(ended.stdout.lines().last().unwrap().contains(told), "{}", ended.stdout);
}

#[test]
fn a_container_without_a_command_is_told_in_a_line() {
    let place = Place::new();
    let job = place.manifest(&job_with("silent", 1, &json!({ "name": "elasticjob-worker", "image": "some:image" })));
    let ended = place.run(&[&job]).wait_for(1);
    let told = "container elasticjob-worker has no command; images are not looked at here, so write what it runs";
    assert!(ended.stdout.lines().last().unwrap().contains(told), "{}", ended.stdout);
}

#[test]
fn two_jobs_run_at_once_and_each_has_its_say_in_the_exit_code() {
    let place = Place::new();
    let meet = |own: &str, other: &str, code: u32| {
        format!(
            "touch {own}; n=0; while [ ! -e {other} ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n+1)); done; exit {code}"
        )
    };
    let good = place.manifest(&job_of("good", 2, &meet("a", "b", 0)));
    let also_good = place.manifest(&job_of("also-good", 2, &meet("b", "a", 0)));
    let ended = place.run(&[&good, &also_good]).wait_for(0);
    for job in ["default/good: Succeeded", "default/also-good: Succeeded"] {
        assert!(ended.stdout.contains(job), "{}", ended.stdout);
    }
    let bad = place.manifest(&job_of("bad", 1, "exit 1"));
    let ended = place.run(&[&good, &bad]).wait_for(1);
    for job in ["default/good: Succeeded", "default/bad: Failed"] {
        assert!(ended.stdout.contains(job), "{}", ended.stdout);
    }
}

#[test]
fn what_is_wrong_with_a_manifest_is_told_before_anything_runs() {
    let place = Place::new();
    let good = place.manifest(&job_of("good", 1, "touch never"));
    let mut bad = job_of("bad", 1, "true");
    bad["spec"]["minReplicas"] = json!("many");
    let bad = place.manifest(&bad);
    let ended = place.run(&[&good, &bad]).wait_for(1);
    assert!(ended.stderr.contains("bad.json: error:"), "{}", ended.stderr);
    assert!(!place.folder.path().join("never").exists() && !place.home().path().exists());
}

#[test]
fn a_program_finds_its_pod_in_its_environment() {
    let place = Place::new();
    let script = "echo $POD_NAME $POD_NAMESPACE $GLOO_SOCKET_IFNAME ${FLEXOR_STATE:-clean} >> told
        [ $POD_IP = $PET_LOCAL_ADDR ] && case $PET_RDZV_ENDPOINT in $POD_IP:*) echo own sidecar >> told ;; esac";
    let job = place.manifest(&job_of("told", 1, script));
    place.run(&[&job]).wait_for(0);
    assert_eq!(place.folder.lines("told"), ["told-worker-0 default lo clean", "own sidecar"]);
}
