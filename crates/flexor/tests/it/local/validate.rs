//! Tests the output of `flexor validate` for people.

use std::fs;

use super::manifests::{GOOD, WARNED, bad};
use crate::program::{feed, flexor, root, run, run_with_input};

#[test]
fn the_readmes_command_accepts_the_examples() {
    let ran = run(&["validate", "examples/"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    insta::assert_snapshot!(format!("{}---\n{}", ran.stdout, ran.stderr));
}

#[test]
fn several_documents_are_judged_each_by_itself() {
    let other = "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: web}\n";
    let ran = run_with_input(&["validate", "-"], format!("{GOOD}---\n{other}---\n{}", bad()).as_bytes());
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!(format!("{}---\n{}", ran.stdout, ran.stderr));
}

/// The output of `kubectl get elasticjob -o yaml` is one document with many objects in it.
#[test]
fn the_objects_of_a_list_are_judged_each_by_itself() {
    let indented: String = GOOD.lines().map(|line| format!("    {line}\n")).collect();
    let item = format!("  -\n{indented}");
    let ran =
        run_with_input(&["validate", "-"], format!("apiVersion: v1\nkind: List\nitems:\n{item}{item}").as_bytes());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "2 accepted, 0 refused, 0 warnings\n"), "{}", ran.stdout);
}

#[test]
fn a_warning_names_its_place_and_what_to_write() {
    insta::assert_snapshot!(run(&["validate", WARNED]).stdout);
}

#[test]
fn every_step_of_a_plan_is_a_line() {
    let plan = "\
apiVersion: elastic.iml.github.io/v1alpha1
kind: ScalePlan
metadata: {name: p, labels: {scale-type: auto}}
spec:
  ownerJob: mnist
  replicaResourceSpecs:
    worker: {replicas: 1, resource: {cpu: \"2\", memory: 4Gi}}
    ps: {replicas: 2}
  removePods:
    - {name: mnist-edljob-worker-7}
  migratePods:
    - {name: mnist-edljob-ps-0, resource: {cpu: \"2\", memory: 8Gi}}
";
    let ran = run_with_input(&["validate", "-"], plan.as_bytes());
    insta::assert_snapshot!(format!("{}---\n{}", ran.stdout, ran.stderr));
}

#[test]
fn every_bad_manifest_is_refused() {
    for entry in fs::read_dir(root().join("testdata/bad/edl")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(run(&["validate", path.to_str().unwrap()]).code, 1, "{}", path.display());
    }
}

#[test]
fn output_that_goes_to_no_terminal_has_no_colours() {
    let ran = run(&["validate", "testdata/bad/edl/two-problems.yaml"]);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'));
    let forced =
        flexor(&["validate", "testdata/bad/edl/two-problems.yaml"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(forced.stdout.contains(&0x1b));
}

#[test]
fn a_manifest_cannot_steer_the_terminal() {
    let other = "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\e[2J\\nb\"}\n";
    let mut coloured = flexor(&["validate", "-"]);
    coloured.env("CLICOLOR_FORCE", "1");
    let ran = feed(coloured, other.as_bytes());
    assert!(ran.stdout.contains("Pod a\\u{1b}[2J\\nb: skipped"), "{:?}", ran.stdout);
}
