//! Tests refused requests: one line with the next step, and an exit code that tells a user's mistake from a fault.

use std::fmt::Write;

use super::laptop::{Laptop, dlrover, torchelastic};

#[test]
fn an_impossible_request_is_refused_in_one_line() {
    let laptop = Laptop::with(&[dlrover("torch-mnist"), torchelastic("imagenet")]);
    for (file, plan) in [
        ("plan.yaml", PLAN_FOR_NOBODY.to_owned()),
        ("servers.yaml", PLAN_FOR_NOBODY.replace("nobody", "torch-mnist").replace("worker:", "ps:")),
        ("one-by-one.yaml", format!("{PLAN_FOR_NOBODY}  createPods:\n    - {{type: worker}}\n")),
    ] {
        std::fs::write(laptop.folder.path().join(file), plan).unwrap();
    }
    let mut message = String::new();
    for words in [
        &["get", "nodes"][..],
        &["get", "pod", "nope"],
        &["get", "pod", "imagenet-worker-0"],
        &["get", "pods", "-n", "empty"],
        &["get", "pods,elasticjobs", "-w"],
        &["get", "pods", "pod/x"],
        &["describe", "elasticjob", "nope"],
        &["logs", "imagenet-worker-0"],
        &["logs", "torch-mnist-edljob-worker-7"],
        &["logs", "torch-mnist"],
        &["logs", "elasticjob/torch-mnist"],
        &["logs", "configmap/x"],
        &["kill", "nope"],
        &["kill", "torch-mnist"],
        &["kill", "torch-mnist-edljob-worker-0", "-c", "nope"],
        &["delete", "pods"],
        &["delete", "pod", "nope"],
        &["delete", "pod", "nope", "--ignore-not-found"],
        &["delete", "-f", "nope.yaml"],
        &["delete", "-f", "plan.yaml"],
        &["delete", "-f", "plan.yaml", "--ignore-not-found"],
        &["delete", "-f", "jobs.yaml", "-n", "other"],
        &["scale", "nope", "--replicas", "1"],
        &["scale", "torch-mnit", "--replicas", "1"],
        &["scale", "torch-mnist"],
        &["scale", "imagenet", "-n", "elastic-job"],
        &["scale", "torch-mnist", "--worker", "0"],
        &["scale", "torch-mnist", "--replicas", "1", "--role", "ps"],
        &["scale", "imagenet", "-n", "elastic-job", "--replicas", "9"],
        &["migrate", "torch-mnist", "worker-0", "--cpu", "2"],
        &["migrate", "imagenet", "worker-0", "-n", "elastic-job", "--cpu", "2"],
        &["migrate", "torch-mnits", "ps-0"],
        &["why", "imagenet"],
        &["why", "elasticjob/torch-mnits"],
        &["events", "nope"],
        &["events", "torch-mnit", "-w"],
        &["apply", "-f", "plan.yaml"],
        &["apply", "-f", "servers.yaml"],
        &["apply", "-f", "one-by-one.yaml"],
        &["apply", "-f", "jobs.yaml", "-n", "other"],
    ] {
        let ran = laptop.flexor(words);
        writeln!(message, "$ flexor {}\n{}exit code {}\n", words.join(" "), ran.stderr, ran.code).unwrap();
    }
    insta::assert_snapshot!(message);
    let wrong = laptop.flexor(&["kill", "x", "--signal", "NOPE"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("there is no signal NOPE"), "{}", wrong.stderr);
    let wrong = laptop.flexor(&["scale", "torch-mnist", "--worker", "-1"]);
    let message = "invalid value '-1' for '--worker <N>': write how many there are to be in all, such as 0 or 3";
    assert!(wrong.code == 2 && wrong.stderr.contains(message) && !wrong.stderr.contains("tip"), "{}", wrong.stderr);
    let wrong = laptop.flexor(&["migrate", "x", "ps-0", "--memory", "4GB"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("`4GB` is not a quantity; write `4G`"), "{}", wrong.stderr);
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
