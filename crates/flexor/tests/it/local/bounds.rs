//! Tests input that asks for more than any machine has: it is refused at once, with what to write instead.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::{ProgramOutput, flexor};

/// What a command prints for a manifest, within the time that a person waits.
fn validate(manifest: &str) -> ProgramOutput {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("job.yaml"), manifest).unwrap();
    let began = Instant::now();
    let ran: ProgramOutput = flexor(&["validate", "job.yaml"]).current_dir(folder.path()).output().unwrap().into();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    ran
}

fn job() -> Value {
    json!({
        "apiVersion": "elastic.iml.github.io/v1alpha1", "kind": "ElasticJob", "metadata": { "name": "a" },
        "spec": { "distributionStrategy": "AllreduceStrategy", "replicaSpecs": { "worker": {
            "replicas": 1,
            "template": { "spec": { "containers": [{ "name": "main", "image": "i", "command": ["true"] }] } },
        } } },
    })
}

#[test]
fn variables_that_stand_for_gigabytes_are_refused() {
    let mut job = job();
    let mut env = vec![json!({ "name": "E", "value": "0123456789" })];
    env.extend(std::iter::repeat_n(json!({ "name": "E", "value": "$(E)".repeat(10) }), 12));
    job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]["env"] = json!(env);
    let ran = validate(&job.to_string());
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    let expected = "expands to more than 131071 bytes, the most that a program can be given";
    assert!(ran.stdout.contains(expected) && ran.stdout.contains("containers[0].env[5].value"), "{}", ran.stdout);
}

#[test]
fn times_that_no_clock_reaches_are_refused() {
    let mut patient = job();
    patient["metadata"]["annotations"] = json!({ "pending_timeout": "18446744073709551615" });
    let mut slow = job();
    slow["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["terminationGracePeriodSeconds"] =
        json!(9_223_372_036_854_775_807_i64);
    for (job, field) in [(patient, "metadata.annotations.pending_timeout"), (slow, "terminationGracePeriodSeconds")] {
        let ran = validate(&job.to_string());
        assert_eq!(ran.code, 1, "{}", ran.stdout);
        assert!(ran.stdout.contains(field) && ran.stdout.contains("more than 63072000"), "{}", ran.stdout);
    }
}

#[test]
fn a_file_of_empty_documents_is_refused() {
    let ran = validate(&"---\n".repeat(50_000));
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(ran.stdout.contains("the file has more than 10000 documents"), "{}", ran.stdout);
}

#[test]
fn numbers_of_processes_and_records_are_bounded() {
    let launch: ProgramOutput =
        flexor(&["launch", "--standalone", "--nproc-per-node=4294967295", "true"]).output().unwrap().into();
    assert_ne!(launch.code, 0);
    assert!(launch.stderr.contains("write a number from 1 to 32768"), "{}", launch.stderr);
    let folder = tempfile::tempdir().unwrap();
    let words = ["data", "gen", "clicks", "--out", "a.csv", "--records", "1", "--test-records", "18446744073709551615"];
    let data: ProgramOutput = flexor(&words).current_dir(folder.path()).output().unwrap().into();
    assert_ne!(data.code, 0);
    assert!(data.stderr.contains("--test-records") && data.stderr.contains("1099511627776"), "{}", data.stderr);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is made");
}
