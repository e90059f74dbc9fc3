//! Tests `flexor validate -o json` against the format in the guide.

use std::fs;

use serde_json::Value;

use super::manifests::{GOOD, WARNED, bad};
use crate::program::{flexor, root, run};

fn parsed(args: &[&str]) -> Value {
    let ran = run(&[&["validate", "-o", "json"], args].concat());
    assert_eq!(ran.stderr, "", "with JSON there is no other summary");
    serde_json::from_str(&ran.stdout).unwrap()
}

/// One instance of everything: a change to this snapshot is a change to a stable format.
#[test]
fn the_format_is_the_documented_one() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    for example in ["deepctr-auto-scaling.yaml", "scaleplan-0-workers.yaml", "scaleplan-3-migrate-ps.yaml"] {
        write(example, &fs::read(root().join("examples/dlrover").join(example)).unwrap());
    }
    write("several.yaml", format!("{GOOD}---\nkind: Pod\napiVersion: v1\n---\n{}---\na: [\n", bad()).as_bytes());
    write("not-text.yaml", b"a: \xff");
    write("nothing.yaml", b"# nothing yet\n");
    let ran = flexor(&["validate", "-o", "json", ".", "missing.yaml"]).current_dir(folder.path()).output().unwrap();
    assert_eq!((ran.status.code(), ran.stderr.len()), (Some(1), 0));
    insta::assert_snapshot!(String::from_utf8(ran.stdout).unwrap());
}

#[test]
fn a_document_has_a_verdict_and_always_a_list_of_findings() {
    let json = parsed(&["examples/torchelastic/imagenet.yaml", "testdata/bad/edl/two-problems.yaml", WARNED]);
    let documents: Vec<&Value> = json["files"].as_array().unwrap().iter().map(|file| &file["documents"][0]).collect();
    let verdicts: Vec<&Value> = documents.iter().map(|document| &document["verdict"]).collect();
    assert_eq!(verdicts, ["accepted", "refused", "accepted"]);
    let findings: Vec<usize> =
        documents.iter().map(|document| document["findings"].as_array().unwrap().len()).collect();
    assert_eq!(findings, [0, 2, 1]);
    assert_eq!(documents[2]["findings"][0]["severity"], "warning");
    assert_eq!(json["summary"]["warnings"], 1);
}

/// The recipe of the guide: each finding has its file, whether it is about the file or about a document in it.
#[test]
fn every_error_of_a_run_is_reached_by_two_paths() {
    let json = parsed(&["no-such-file.yaml", "testdata/bad/edl/two-problems.yaml"]);
    let mut messages = Vec::new();
    for file in json["files"].as_array().unwrap() {
        messages.extend(file.get("error").map(|error| error["message"].clone()));
        for document in file["documents"].as_array().unwrap() {
            messages.extend(document["findings"].as_array().unwrap().iter().map(|finding| finding["message"].clone()));
        }
    }
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[0], "No such file or directory");
}
