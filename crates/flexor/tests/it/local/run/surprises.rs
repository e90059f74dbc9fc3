//! Tests what users expect and the laptop does not do, and command lines that they try first.

use std::fs;

use serde_json::json;

use super::super::launch::launcher::Launcher;
use super::cluster::{Workspace, job_of};

#[test]
fn the_same_job_in_two_files_is_refused_with_both_places() {
    let workspace = Workspace::new();
    let job = job_of("twice", 1, "touch never");
    let first = workspace.manifest(&job);
    fs::write(workspace.folder.path().join("copy.yaml"), format!("# a copy\n---\n{job}\n")).unwrap();
    let ended = workspace.run(&[&first, "copy.yaml"]).wait_for(1);
    let expected = "copy.yaml:3:1: error: job twice is described twice, also in twice.json:1:1; give one of them another \
                    name, or leave it out\n";
    assert_eq!((ended.stderr.as_str(), ended.stdout.as_str()), (expected, ""));
    assert!(!workspace.folder.path().join("never").exists() && !workspace.state_dir().path().exists());
}

#[test]
fn the_same_name_in_two_namespaces_is_two_jobs() {
    let workspace = Workspace::new();
    let first = workspace.manifest(&job_of("twice", 1, "echo one >> ran"));
    let mut other = job_of("twice", 1, "echo two >> ran");
    other["metadata"]["namespace"] = "other".into();
    fs::write(workspace.folder.path().join("other.json"), other.to_string()).unwrap();
    workspace.run(&[&first, "other.json"]).wait_for(0);
    assert_eq!(workspace.folder.lines("ran").len(), 2);
}

#[test]
fn gpus_and_scaling_that_nothing_provides_are_one_warning_each() {
    let workspace = Workspace::new();
    let container = json!({
        "name": "main", "command": ["true"], "resources": { "limits": { "nvidia.com/gpu": 2 } },
    });
    let template = json!({ "spec": { "containers": [container] } });
    let job = json!({
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": { "name": "asks" },
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "optimizeMode": "single-job",
            "replicaSpecs": { "worker": { "replicas": 2, "template": template } },
        },
    });
    let manifest = workspace.manifest(&job);
    let mut command = workspace.command(&[&manifest, "--ephemeral"]);
    // No device is visible, whatever the machine has.
    let ended = Launcher::start(command.env("CUDA_VISIBLE_DEVICES", "")).wait_for(0);
    let warnings: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("warning: asks: ")).collect();
    assert_eq!(
        warnings,
        [
            "asks.json: warning: asks: the job asks for GPUs (role worker 2 nvidia.com/gpu) and this machine has none; its \
             pods start without them",
            "asks.json: warning: asks: nothing adapts the sizes of roles here (optimizeMode: single-job); `flexor scale \
             asks --worker N` and ScalePlans do",
        ],
        "{}",
        ended.stderr
    );
}

#[test]
fn a_file_may_be_named_as_kubectl_names_it() {
    let workspace = Workspace::new();
    let manifest = workspace.manifest(&job_of("named", 1, "echo ran >> ran"));
    workspace.run(&["-f", &manifest]).wait_for(0);
    assert_eq!(workspace.folder.lines("ran"), ["ran"]);
}

#[test]
fn a_python_script_is_pointed_to_the_launcher() {
    let workspace = Workspace::new();
    fs::write(workspace.folder.path().join("train.py"), "").unwrap();
    let ended = workspace.run(&["train.py"]).wait_for(2);
    let expected =
        "error: train.py is a Python script, not a manifest; `flexor launch --standalone train.py` runs it\n";
    assert_eq!((ended.stderr.as_str(), ended.stdout.as_str()), (expected, ""));
    assert!(!workspace.state_dir().path().exists());
}
