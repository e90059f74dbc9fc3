//! Jobs that the planner sizes on one machine: they share the CPUs, and wait whole until they fit.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::cluster::Workspace;
use super::quickstart::PATIENCE;
use crate::local::faults::process::server;
use crate::program::root;

/// Copies an example into the workspace, with changes.
fn example(workspace: &Workspace, name: &str, changes: &[(&str, &str)]) {
    let mut text = fs::read_to_string(root().join("examples/edl").join(name)).unwrap();
    for (there, instead) in changes {
        assert!(text.contains(there), "{name} says {there:?}");
        text = text.replace(there, instead);
    }
    fs::write(workspace.folder.path().join(name), text).unwrap();
}

fn generate_digits(workspace: &Workspace) {
    let words = "data gen digits --out digits --records 6000 --test-records 500 --records-per-file 1500";
    let words: Vec<&str> = words.split(' ').collect();
    let made = server(&words).current_dir(workspace.folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn two_training_jobs_share_the_cpus_and_account_for_every_record() {
    let workspace = Workspace::new();
    generate_digits(&workspace);
    let files = ["laptop-a.yaml", "laptop-b.yaml"];
    for file in files {
        example(&workspace, file, &[("passes: 20", "passes: 6")]);
    }
    let words = [&["--cpus", "6", "--report", "report"][..], &files].concat();
    let ended = workspace.run(&words).patient(PATIENCE).wait_for(0);
    let report: Value =
        serde_json::from_slice(&fs::read(workspace.folder.path().join("report/report.json")).unwrap()).unwrap();
    let jobs = report["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2, "{report}");
    for job in jobs {
        let records = &job["records"];
        assert_eq!(records["accounted"], 6 * 6000, "{records}");
        assert_eq!((&records["expected"], &records["lost"]), (&records["accounted"], &0.into()), "{records}");
    }
    // 6 CPUs less a master and a server each leave room for five trainers.
    let says = |line: &str| assert!(ended.stdout.contains(line), "{line}: {}", ended.stdout);
    says("default/digits-a: SizeFromPlanner: trainer 0 -> 3: +1 the base fits, +2 room is free");
    says("default/digits-b: SizeFromPlanner: trainer 0 -> 2: +1 the base fits, +1 room is free");
}

#[test]
fn a_job_that_does_not_fit_is_held_whole_until_another_is_gone() {
    let workspace = Workspace::new();
    // Both have a fixed size, and only one of them fits.
    for (file, most) in [("laptop-a.yaml", "max-instance: 4"), ("laptop-b.yaml", "max-instance: 3")] {
        let seed = if file == "laptop-a.yaml" { "--seed=1" } else { "--seed=2" };
        let trains = format!("flexor worker --model=mlp --data=digits --test-data=digits-test --batch=256 {seed}");
        let range = format!("min-instance: 1\n    {most}");
        let changes = [(trains.as_str(), "sleep 1000"), (&range, "min-instance: 3\n    max-instance: 3")];
        example(&workspace, file, &changes);
    }
    let running = workspace.run(&["--cpus", "6", "laptop-a.yaml", "laptop-b.yaml"]);
    running.await_stdout("default/digits-b: JobHeld: default/digits-b needs 3.3 cores; 2.7 free, 0 could be freed", 1);
    workspace.await_running("digits-a-trainer-2");
    assert!(workspace.pods().iter().all(|pod| !pod.name.starts_with("digits-b")), "a held job has no pods");
    let why = workspace.says(&["why", "digits-b"]);
    assert!(why.contains("needs 3.3 cores"), "{why}");
    workspace.says(&["delete", "trainingjob", "digits-a"]);
    workspace.await_running("digits-b-trainer-2");
    let why = workspace.says(&["why", "digits-b"]);
    let changes = why.split("Sizes from the cluster's planner:").nth(1).unwrap_or_default();
    assert!(changes.contains("s ago trainer 0 -> 3: "), "{why}");
    running.signal(Signal::SIGINT);
    running.wait_for(130);
}
