//! What cannot be had is told in one line, with the next thing to try, and the exit code says whose fault it is.

use std::fmt::Write;

use super::laptop::{Laptop, dlrover, torchelastic};

#[test]
fn what_cannot_be_had_is_told_in_one_line() {
    let laptop = Laptop::with(&[dlrover("torch-mnist"), torchelastic("imagenet")]);
    std::fs::write(laptop.folder.path().join("plan.yaml"), PLAN_FOR_NOBODY).unwrap();
    let mut told = String::new();
    for words in [
        &["get", "nodes"][..],
        &["get", "pod", "nope"],
        &["get", "pod", "imagenet-worker-0"],
        &["get", "pods", "-n", "empty"],
        &["get", "pods,elasticjobs", "-w"],
        &["get", "pods", "pod/x"],
        &["describe", "elasticjob", "nope"],
        &["logs", "imagenet-worker-0"],
        &["kill", "nope"],
        &["kill", "torch-mnist-edljob-worker-0", "-c", "nope"],
        &["delete", "pods"],
        &["delete", "pod", "nope"],
        &["scale", "nope", "--replicas", "1"],
        &["scale", "torch-mnist", "--worker", "9"],
        &["scale", "torch-mnist", "--replicas", "1", "--role", "ps"],
        &["scale", "imagenet", "-n", "elastic-job", "--replicas", "9"],
        &["explain", "imagenet"],
        &["apply", "-f", "plan.yaml"],
        &["apply", "-f", "jobs.yaml", "-n", "other"],
    ] {
        let ran = laptop.flexor(words);
        writeln!(told, "$ flexor {}\n{}exit code {}\n", words.join(" "), ran.stderr, ran.code).unwrap();
    }
    insta::assert_snapshot!(told);
    let wrong = laptop.flexor(&["kill", "x", "--signal", "NOPE"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("there is no signal NOPE"), "{}", wrong.stderr);
    let wrong = laptop.flexor(&["get", "pods", "-l", "a in b"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("is no requirement"), "{}", wrong.stderr);
}

const PLAN_FOR_NOBODY: &str = "
apiVersion: elastic.iml.github.io/v1alpha1
kind: ScalePlan
metadata:
  name: plan
spec:
  ownerJob: nobody
  replicaResourceSpecs:
    worker:
      replicas: 1
";
