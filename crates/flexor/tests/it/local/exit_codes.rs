//! Tests the exit codes that `flexor --help` lists.

use std::{fs::File, process::Stdio};

use super::manifests::{WARNED, bad};
use crate::program::{flexor, run, run_with_input};

#[test]
fn wrong_usage_ends_with_2_and_a_hint() {
    for args in [&["validat"][..], &["validate"], &["validate", "-", "-"], &["crd", "--dialect", "edll"], &[]] {
        let ran = run(args);
        assert_eq!(ran.code, 2, "{args:?}");
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{args:?}");
    }
    assert!(run(&["validat"]).stderr.contains("validate"));
    let twice = run(&["validate", "-", "-"]).stderr;
    assert!(twice.contains("standard input (-) can be read only once") && twice.contains("Usage: flexor validate"));
}

#[test]
fn warnings_are_a_failure_only_with_strict() {
    assert_eq!(run(&["validate", WARNED]).code, 0);
    let strict = run(&["validate", "--strict", WARNED]);
    assert_eq!((strict.code, strict.stdout), (1, run(&["validate", WARNED]).stdout));
    assert_eq!(run(&["validate", "--strict", "examples/torchelastic"]).code, 0);
}

#[test]
fn output_that_cannot_be_written_ends_with_3() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ran = flexor(&["crd"]).stdout(full).output().unwrap();
    let printed = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(3), "{printed}");
    assert!(printed.starts_with("error: the output could not be written: "), "{printed}");
}

#[test]
fn a_reader_that_leaves_early_changes_nothing_about_the_result() {
    for (args, code) in [(&["crd"][..], 0), (&["validate", "testdata/bad/edl/two-problems.yaml"], 1)] {
        let mut child = flexor(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("error"), "{args:?}");
    }
}

#[test]
fn a_refused_document_ends_with_1_in_every_format() {
    for args in [&["validate", "-"][..], &["validate", "-o", "json", "-"]] {
        assert_eq!(run_with_input(args, bad().as_bytes()).code, 1, "{args:?}");
    }
}
