//! Tests manifests that this machine cannot run: the message names the file, and nothing has changed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::cluster::{Workspace, job_of, job_with};
use crate::program::root;

/// The message for a manifest that cannot run beside one that can; nothing has started.
fn refusal(manifest: &Value) -> String {
    let workspace = Workspace::new();
    let good = workspace.manifest(&job_of("good", 1, "touch never"));
    let bad = workspace.manifest(manifest);
    let ended = workspace.run(&[&good, &bad]).wait_for(1);
    assert_eq!(ended.stdout, "");
    assert!(!workspace.folder.path().join("never").exists() && !workspace.state_dir().path().exists());
    ended.stderr
}

#[test]
fn a_container_without_a_command_is_refused() {
    let mut job = job_with("silent", 1, &json!({ "name": "elasticjob-worker", "image": "some:image", "args": ["x"] }));
    let message = refusal(&job);
    assert_eq!(
        message,
        "silent.json: error: silent: role Worker: container elasticjob-worker has no command; images are not looked at \
         here, so write what it runs, such as `command: [python, train.py]`\n"
    );
    let spec = &mut job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"];
    spec["containers"][0]["command"] = json!(["true"]);
    spec["initContainers"] = json!([{ "name": "first", "image": "some:image" }]);
    assert!(refusal(&job).contains("role Worker: container first has no command"));
}

#[test]
fn impossible_volumes_are_refused() {
    let mut job = job_of("network", 1, "true");
    let spec = &mut job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"];
    spec["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    spec["volumes"] = json!([{ "name": "data", "nfs": { "server": "files", "path": "/" } }]);
    let message = refusal(&job);
    let expected = "role Worker: container elasticjob-worker: volume data: nfs volumes are not supported here; mount it on \
                    this machine and write hostPath";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn invalid_objects_are_refused() {
    let config =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "config" }, "data": { "epochs": 5 } });
    let message = refusal(&config);
    assert_eq!(
        message,
        "config.json: error: ConfigMap config: data.epochs: must be a string, got a number; put quotes around it\n"
    );
}

#[test]
fn unsupported_kinds_are_refused() {
    let (file, message) = ("examples/elasticdl/my-pod.yaml", "Pod");
    assert!(root().join(file).exists(), "{file}");
    let workspace = Workspace::new();
    let ended = workspace.run(&[file]).wait_for(1);
    let errors: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(message)).collect();
    assert_eq!(errors.len(), 1, "{}", ended.stderr);
    assert!(!workspace.state_dir().path().exists());
}

#[test]
fn a_script_without_its_executable_bit_is_refused_with_the_remedy() {
    let workspace = Workspace::new();
    let script = workspace.folder.path().join("train.sh");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o644)).unwrap();
    let container = json!({ "name": "elasticjob-worker", "command": [script] });
    let ended = workspace.run(&[&workspace.manifest(&job_with("script", 1, &container))]).wait_for(1);
    let last = ended.stdout.lines().last().unwrap();
    let message = format!("'{0}' may not be executed; make it executable (chmod +x '{0}')", script.display());
    assert!(last.contains(&message) && last.contains("exit code 126, StartError"), "{last}");
}
