//! `flexor validate`, as people and scripts see it.

use std::{fs, process::Stdio};

use serde_json::Value;

use crate::program::{flexor, run, run_with_input};

const GOOD: &str = "apiVersion: elastic.pytorch.org/v1alpha1\nkind: ElasticJob\nmetadata: {name: a}\nspec:\n  replicaSpecs:\n    Worker:\n      replicas: 2\n      template: {spec: {containers: [{name: main, image: x}]}}\n";

#[test]
fn the_readmes_command_accepts_the_examples() {
    let ran = run(&["validate", "examples/"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    insta::assert_snapshot!(format!("{}---\n{}", ran.stdout, ran.stderr));
}

#[test]
fn several_documents_are_judged_each_by_itself() {
    let file = format!(
        "{GOOD}---\nkind: Deployment\napiVersion: apps/v1\nmetadata: {{name: web}}\n---\n{}",
        GOOD.replace("replicas", "replica")
    );
    let ran = run_with_input(&["validate", "-"], file.as_bytes());
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!(format!("{}---\n{}", ran.stdout, ran.stderr));
}

/// What `kubectl get elasticjob -o yaml` prints is one document with many objects in it.
#[test]
fn the_objects_of_a_list_are_judged_each_by_itself() {
    let indented: String = GOOD.lines().map(|line| format!("    {line}\n")).collect();
    let item = format!("  -\n{indented}");
    let ran =
        run_with_input(&["validate", "-"], format!("apiVersion: v1\nkind: List\nitems:\n{item}{item}").as_bytes());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "2 accepted, 0 refused, 0 warnings\n"), "{}", ran.stdout);
}

#[test]
fn warnings_alone_are_no_failure() {
    let ran = run(&["validate", "testdata/warned/dlrover/rdzv-backend-of-a-patched-image.yaml"]);
    assert_eq!(ran.code, 0);
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn every_bad_manifest_ends_with_1() {
    for entry in fs::read_dir(crate::program::root().join("testdata/bad/edl")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(run(&["validate", path.to_str().unwrap()]).code, 1, "{}", path.display());
    }
}

#[test]
fn machines_get_the_same_as_json() {
    let ran = run(&["validate", "-o", "json", "examples/torchelastic", "testdata/bad/edl/two-problems.yaml"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["summary"]["accepted"], 2);
    assert_eq!(json["summary"]["refused"], 1);
    let files = json["files"].as_array().unwrap();
    let refused = &files.last().unwrap()["documents"][0];
    assert_eq!(refused["verdict"]["verdict"], "refused");
    assert_eq!(refused["verdict"]["findings"][0]["reason"], "InvalidValue");
    assert_eq!(refused["verdict"]["findings"][0]["at"]["line"], 8);
    let job = &files[1]["documents"][0]["verdict"]["subject"]["job"];
    assert_eq!((&job["name"], &job["roles"][1]["range"]["max"]), (&"imagenet".into(), &2.into()));
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_judged() {
    let empty = tempfile::tempdir().unwrap();
    let ran =
        run(&["validate", "no-such-file.yaml", empty.path().to_str().unwrap(), "examples/torchelastic/imagenet.yaml"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("no-such-file.yaml: error: No such file"), "{}", ran.stdout);
    assert!(ran.stdout.contains("holds no .yaml, .yml or .json file"), "{}", ran.stdout);
    assert!(ran.stdout.contains("ElasticJob imagenet (torchelastic)"), "{}", ran.stdout);
}

/// A folder may hold other YAML; a file that is named must be a manifest.
#[test]
fn yaml_that_is_no_manifest_fails_only_where_it_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("values.yaml");
    fs::write(&other, "replicas: 3\n").unwrap();
    assert_eq!(run(&["validate", folder.path().to_str().unwrap()]).code, 0);
    assert_eq!(run(&["validate", other.to_str().unwrap()]).code, 1);
}

#[test]
fn output_that_nobody_sees_has_no_colours() {
    let ran = run(&["validate", "testdata/bad/edl/two-problems.yaml"]);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'));
    let forced =
        flexor(&["validate", "testdata/bad/edl/two-problems.yaml"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(forced.stdout.contains(&0x1b));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = flexor(&["crd"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
