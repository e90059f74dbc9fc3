//! Tests that `--chaos` refuses impossible values in one line, before anything runs.

use std::fs;

use super::super::cluster::{Workspace, job_of};

/// Runs a job with this value of `--chaos`; returns the message. Nothing has been started.
fn refused(chaos: &str, code: i32, file: Option<&str>) -> String {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("job", 1, "touch ran"));
    if let Some(text) = file {
        fs::write(workspace.folder.path().join("chaos.json"), text).unwrap();
    }
    let ended = workspace.run(&[&job, "--chaos", chaos]).wait_for(code);
    assert!(!workspace.folder.path().join("ran").exists() && !workspace.state_dir().path().exists());
    ended.stderr
}

#[test]
fn an_invalid_seed_is_refused() {
    for (chaos, message) in [("monkey", "write SEED, SEED,RATE or @FILE"), ("1,fast", "fast is no rate")] {
        let output = refused(chaos, 2, None);
        assert!(output.contains(message), "{output}");
    }
}

#[test]
fn an_invalid_script_is_refused() {
    let other = r#"{"version":1,"seed":0,"rate":1,"faults":[{"atMs":1,"fault":{"kill":
        {"job":{"namespace":"default","name":"other"},"role":"Worker","rank":0}}}]}"#;
    for (file, message) in [
        (None, "chaos.json: No such file"),
        (Some("{"), "chaos.json: EOF"),
        (Some(r#"{"version":9,"seed":0,"rate":1,"faults":[]}"#), "it is of version 9"),
        (Some(other), "faults[0]: it is about the job default/other, which is not among those that are run"),
    ] {
        let output = refused("@chaos.json", 1, file);
        assert!(output.starts_with("error: --chaos chaos.json: ") && output.contains(message), "{output}");
        assert_eq!(output.lines().count(), 1, "{output}");
    }
}
