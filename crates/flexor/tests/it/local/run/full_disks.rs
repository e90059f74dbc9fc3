//! Tests full disks under a running job: they are told at once, from memory, and the time counts as recovering.

use std::fs;

use serde_json::{Value, json};

use super::super::data::report::WrittenRecords;
use super::cluster::{Workspace, job_of};
use super::endings::ANY_PROGRAM;

/// Writes a script of these faults, from 700 ms on and 50 ms apart.
fn script(workspace: &Workspace, faults: &[Value]) {
    let timed = faults.iter().enumerate().map(|(index, fault)| json!({ "atMs": 700 + 50 * index, "fault": fault }));
    let script = json!({ "version": 1, "seed": 0, "rate": 1, "faults": timed.collect::<Vec<_>>() });
    fs::write(workspace.folder.path().join("faults.json"), script.to_string()).unwrap();
}

/// The seconds of recovering in a summary.
fn recovering(summary: &str) -> f64 {
    let (_, rest) = summary.split_once("recovering ").unwrap_or_else(|| panic!("{summary}"));
    rest.split_once('s').unwrap().0.parse().unwrap()
}

#[test]
fn a_journal_that_cannot_be_written_is_told_and_its_time_is_recovering() {
    let workspace = Workspace::new();
    let job = json!({ "namespace": "default", "name": "any-program" });
    script(&workspace, &[json!({ "fillDisk": { "job": job, "forMs": 3000 } })]);
    let run = workspace.run(&[ANY_PROGRAM, "--chaos", "@faults.json"]);
    run.await_stdout("JournalFull: the disk under", 1);
    let events = workspace.says(&["get", "events"]);
    assert!(events.contains("JournalFull"), "{events}");
    let ended = run.wait_for(0);
    assert!(ended.stdout.contains("JournalWritable"), "{}", ended.stdout);
    assert!(recovering(&ended.stdout) >= 1.5, "{}", ended.stdout);
    assert_eq!(WrittenRecords::read(&workspace.folder).records(), 1000);
}

#[test]
fn a_state_directory_that_is_full_is_told_from_memory() {
    let workspace = Workspace::new();
    let again = "echo life >> lives; [ $(wc -l < lives) -ge 2 ] || sleep 60";
    let job = workspace.manifest(&job_of("job", 1, again));
    let worker = json!({ "job": { "namespace": "default", "name": "job" }, "role": "Worker", "rank": 0 });
    script(&workspace, &[json!({ "failWrites": { "forMs": 4000 } }), json!({ "kill": worker })]);
    let run = workspace.run(&[&job, "--chaos", "@faults.json"]);
    run.await_stdout("StateDirectoryFull", 1);
    for words in [&["get", "events"][..], &["why", "job"]] {
        let told = workspace.says(words);
        assert!(told.contains("StateDirectoryFull"), "{words:?}: {told}");
    }
    let pods = workspace.says(&["get", "pods"]);
    let worker = pods.lines().find(|line| line.starts_with("job-worker-0")).unwrap_or_else(|| panic!("{pods}"));
    assert!(worker.contains(" 0/"), "a dead program is not ready: {pods}");
    let ended = run.wait_for(0);
    assert!(recovering(&ended.stdout) >= 1.5, "{}", ended.stdout);
}
