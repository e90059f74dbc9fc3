//! Tests ConfigMaps, Secrets and PriorityClasses: listing, changes, pods that wait for them, and file permissions.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::verbs::laptop::{Laptop, dlrover, redacted};

const OBJECTS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: config
data:
  epochs: "5"
  notes: |
    one
    two
---
apiVersion: v1
kind: Secret
metadata:
  name: token
stringData:
  token: hush
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: high
value: 1000000
description: What must not wait.
"#;

/// A job that needs a variable of a ConfigMap.
fn with_variable(config: &str) -> String {
    let reference = format!("{{configMapKeyRef: {{name: {config}, key: epochs}}}}");
    let before = "              command:";
    let env = format!("              env: [{{name: EPOCHS, valueFrom: {reference}}}]\n");
    dlrover("waits").replace(before, &format!("{env}{before}"))
}

#[test]
fn objects_are_shown_as_by_kubectl_and_secret_values_only_on_request() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    fs::write(laptop.folder.path().join("objects.yaml"), OBJECTS).unwrap();
    let mut message = String::new();
    for words in [
        &["apply", "-f", "objects.yaml"][..],
        &["apply", "-f", "objects.yaml"],
        &["get", "configmaps"],
        &["get", "cm", "-A"],
        &["get", "secrets"],
        &["get", "priorityclasses"],
        &["get", "pc", "high", "-o", "name"],
        &["get", "cm,secrets"],
        &["get", "secret", "token", "-o", "yaml"],
        &["describe", "cm", "config"],
        &["describe", "secret", "token"],
        &["describe", "pc", "high"],
        &["delete", "cm", "config"],
        &["delete", "pc/high", "secret/token"],
    ] {
        message.push_str(&format!("$ flexor {}\n{}\n", words.join(" "), laptop.shows(words)));
        for entry in fs::read_dir(laptop.state_dir().join("objects")).unwrap() {
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
    insta::assert_snapshot!(message);
    for words in [&["get", "cm"][..], &["get", "cm", "-n", "other"]] {
        assert!(laptop.flexor(words).stderr.contains("No resources found"));
    }
    for file in ["events.jsonl", "log"] {
        let output = fs::read_to_string(laptop.state_dir().join(file)).unwrap_or_default();
        assert!(!output.contains("hush"));
    }
}

#[test]
fn an_invalid_object_is_refused_and_nothing_changes() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let mut message = String::new();
    let mut apply = |name: &str, text: &str| {
        fs::write(laptop.folder.path().join(name), text).unwrap();
        let ran = laptop.flexor(&["apply", "-f", name]);
        message.push_str(&format!("$ flexor apply -f {name}\n{}{}exit code {}\n\n", ran.stdout, ran.stderr, ran.code));
    };
    apply("good.yaml", &OBJECTS.replace("value: 1000000", "value: 1000000\nglobalDefault: true"));
    apply("other-value.yaml", &OBJECTS.replace("value: 1000000", "value: 2\nglobalDefault: true"));
    apply("two-defaults.yaml", &OBJECTS.replace("name: high", "name: other\nglobalDefault: true"));
    apply("no-string.yaml", &OBJECTS.replace("\"5\"", "5"));
    apply("no-base64.yaml", &OBJECTS.replace("stringData", "data").replace("hush", "hush!"));
    apply("built-in.yaml", &OBJECTS.replace("name: high", "name: system-node-critical"));
    for words in [&["delete", "pc", "system-node-critical"][..], &["get", "pc", "nope"], &["delete", "secret", "nope"]]
    {
        let ran = laptop.flexor(words);
        message.push_str(&format!(
            "$ flexor {}\n{}{}exit code {}\n\n",
            words.join(" "),
            ran.stdout,
            ran.stderr,
            ran.code
        ));
    }
    insta::assert_snapshot!(redacted(&message));
    let class = laptop.json(&["get", "pc", "high"]);
    assert_eq!((&class["value"], &class["globalDefault"]), (&1_000_000.into(), &true.into()));
}

#[test]
fn a_pod_waits_for_a_referenced_object_and_starts_when_it_exists() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    fs::write(laptop.folder.path().join("waits.yaml"), with_variable("later")).unwrap();
    laptop.says(&["apply", "-f", "waits.yaml"]);
    let waits = laptop.eventually("a pod that waits", || {
        let table = laptop.flexor(&["get", "pods"]).stdout;
        (table.matches("CreateContainerConfigError").count() == 2).then_some(table)
    });
    assert!(waits.contains("waits-edljob-worker-0"), "{waits}");
    let described = laptop.says(&["describe", "pod", "waits-edljob-worker-0"]);
    let message = "variable EPOCHS refers to key epochs of the ConfigMap later, which does not exist";
    assert!(described.contains(message) && described.contains("MissingReference"), "{described}");
    let config = OBJECTS.split("---").next().unwrap().replace("name: config", "name: later");
    fs::write(laptop.folder.path().join("config.yaml"), config).unwrap();
    laptop.says(&["apply", "-f", "config.yaml"]);
    laptop.await_running(6);
}
