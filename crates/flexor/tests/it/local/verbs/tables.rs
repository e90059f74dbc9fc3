//! Tests every table and description for people.

use super::super::launch::folder::WAIT;
use super::laptop::{Laptop, dlrover, redacted, torchelastic};

#[test]
fn tables_are_those_of_kubectl_with_the_columns_of_the_definitions() {
    let laptop = Laptop::with(&[dlrover("torch-mnist"), torchelastic("imagenet")]);
    let mut message = String::new();
    for words in [
        &["get", "pods"][..],
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "po", "-n", "elastic-job", "-l", "replica-type=worker,replica-index in (0,7)"],
        &["get", "elasticjobs", "-A"],
        &["get", "elasticjob", "torch-mnist"],
        &["get", "elasticjob/imagenet", "-n", "elastic-job"],
        &["get", "pods", "-o", "name"],
        &["get", "elasticjobs,scaleplans", "-A", "-o", "name"],
        &["get", "pods,elasticjobs"],
        &["get", "events"],
        &["events", "imagenet", "-n", "elastic-job"],
        &["events", "torch-mnist-edljob-worker-1"],
        &["why", "torch-mnist"],
        &["why", "tej", "imagenet", "-n", "elastic-job"],
    ] {
        message.push_str(&format!("$ flexor {}\n{}\n", words.join(" "), laptop.shows(words)));
    }
    insta::assert_snapshot!(message);
    insta::assert_snapshot!("a_job_is_described", laptop.shows(&["describe", "tej", "imagenet", "-n", "elastic-job"]));
    insta::assert_snapshot!("a_pod_is_described", laptop.shows(&["describe", "pod", "torch-mnist-edljob-worker-1"]));
}

#[test]
fn no_container_of_a_finished_pod_is_ready() {
    let laptop = Laptop::begin(&[dlrover("stays"), torchelastic("ends").replace(WAIT, "true")]);
    // The phase, not the column: a pod shows Completed as soon as its program is done, while its sidecar still ends.
    laptop.eventually("both workers over", || {
        let words = ["get", "pods", "-n", "elastic-job", "-l", "replica-type=worker", "-o", "json"];
        let pods: serde_json::Value = serde_json::from_str(&laptop.flexor(&words).stdout).ok()?;
        let phases = pods["items"].as_array()?.iter().filter_map(|pod| pod["status"]["phase"].as_str());
        phases.eq(["Succeeded", "Succeeded"]).then_some(())
    });
    let message = laptop.says(&["get", "pods", "-n", "elastic-job"]);
    assert_eq!(message.matches("worker").count(), 2, "{message}");
    for worker in message.lines().filter(|line| line.contains("worker")) {
        let cells: Vec<&str> = worker.split_whitespace().collect();
        assert_eq!(cells[1..3], ["0/2", "Completed"], "{message}");
    }
}

#[test]
fn programs_get_objects_as_kubernetes_prints_them() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let words = ["get", "pod", "torch-mnist-edljob-worker-0"];
    let pod = laptop.json(&words);
    let yaml = laptop.says(&[&words[..], &["-o", "yaml"]].concat());
    assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(), pod);
    insta::assert_snapshot!(redacted(&yaml));
    let list = laptop.json(&["get", "pods", "-l", "elasticjob-name=torch-mnist"]);
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&"List".into(), 3));
    let none = laptop.json(&["get", "scaleplans"]);
    assert_eq!(none["items"], serde_json::json!([]));
    let job = laptop.json(&["get", "elasticjob", "torch-mnist"]);
    assert_eq!(job["status"]["status"]["replicaStatuses"]["worker"]["active"], 2);
    assert_eq!(job["status"]["targets"]["worker"]["replicas"], 2);
}

#[test]
fn top_shows_the_usage_of_pods() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let message = laptop.says(&["top"]);
    let rows: Vec<Vec<&str>> = message.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "CPU(cores)", "MEMORY(bytes)"]);
    let names: Vec<&str> = rows[1..].iter().map(|row| row[0]).collect();
    let workers = ["torch-mnist-edljob-worker-0", "torch-mnist-edljob-worker-1"];
    assert_eq!(names, ["elasticjob-torch-mnist-dlrover-master", workers[0], workers[1]]);
    for row in &rows[1..] {
        let memory: u64 = row[2].strip_suffix("Mi").unwrap().parse().unwrap();
        assert!(row[1].ends_with('m') && memory > 0, "{message}");
    }
    assert_eq!(laptop.says(&["top", "pods"]).lines().next(), message.lines().next());
    let of_job = laptop.says(&["top", "elasticjob/torch-mnist"]);
    assert!(of_job.contains("/torch-mnist: no training step has been counted\nits pods use "), "{of_job}");
    assert!(of_job.contains("CPU, which all pods share") && of_job.contains("unlimited"), "{of_job}");
    assert_eq!(
        of_job.lines().filter(|line| line.contains("torch-mnist-") && line.contains('%')).count(),
        3,
        "{of_job}"
    );
    let of_job = laptop.json(&["top", "torch-mnist"]);
    assert_eq!((&of_job["kind"], of_job["pods"].as_array().unwrap().len()), (&"JobMetrics".into(), 3));
    assert!(of_job["pods"][0]["mayUseCPU"].is_string(), "{of_job}");
    assert!(laptop.flexor(&["top", "nodes"]).code != 0, "there is no such job");
    let metrics = laptop.json(&["top", "-l", "replica-type=worker"]);
    assert!(metrics["items"].as_array().unwrap().len() <= 2);
    assert_eq!(metrics["items"][0]["kind"], "PodMetrics");
}
