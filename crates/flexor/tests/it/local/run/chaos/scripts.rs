//! Tests handwritten fault scripts: each fault is injected or reported as missed.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::super::super::faults::deadline::eventually;
use super::super::super::launch::folder::WAIT;
use super::super::cluster::{Workspace, job_of};

/// Where a script is expected to be.
const FILE: &str = "@acts.json";

fn slot(role: &str, rank: u32) -> Value {
    json!({ "job": { "namespace": "default", "name": "job" }, "role": role, "rank": rank })
}

/// Writes a script of these faults, 50 ms apart.
fn script(workspace: &Workspace, faults: &[Value]) {
    let timed = faults.iter().enumerate().map(|(index, fault)| json!({ "atMs": 700 + 50 * index, "fault": fault }));
    let script = json!({ "version": 1, "seed": 0, "rate": 1, "faults": timed.collect::<Vec<_>>() });
    fs::write(workspace.folder.path().join("acts.json"), script.to_string()).unwrap();
}

#[test]
fn each_fault_hits_its_target_and_the_job_succeeds() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("job", 2, &format!("echo $POD_NAME >> lives; {WAIT}")));
    let of_job = json!({ "namespace": "default", "name": "job" });
    script(
        &workspace,
        &[
            json!({ "kill": slot("Worker", 0) }),
            json!({ "killSupervisor": slot("Worker", 1) }),
            json!({ "killSidecar": slot("Worker", 7) }),
            json!({ "stop": { "slot": slot("master", 0), "forMs": 300 } }),
            json!({ "fillDisk": { "job": of_job, "forMs": 200 } }),
            json!({ "slowDisk": { "job": of_job, "byMs": 50, "forMs": 200 } }),
            json!({ "jumpClock": { "job": of_job, "byMs": -60_000 } }),
            json!({ "failWrites": { "forMs": 300 } }),
        ],
    );
    let run = workspace.run(&[&job, "--chaos", FILE]);
    for message in [
        "job-worker-0: FaultInjected: kill Worker 0 of job: process ",
        "job-worker-1: FaultInjected: kill the supervisor of Worker 1 of job: process ",
        "default/job: FaultInjected: kill the sidecar of Worker 7 of job: missed, there is no such pod at the moment",
        "job-master: FaultInjected: stop master 0 of job for 0.3s: 1 processes",
        "default/job: FaultInjected: fill the disk of default/job for 0.2s: its master is told",
        "default/job: FaultInjected: slow the disk of default/job by 50ms for 0.2s: its master is told",
        "default/job: FaultInjected: set the clock of default/job back by 60s: its master is told",
        "default/job: FaultInjected: fail all writes of the cluster for 0.3s",
    ] {
        run.await_stdout(message, 1);
    }
    workspace.folder.await_lines("lives", 4);
    workspace.folder.let_go();
    let ended = run.wait_for(0);
    let lives = workspace.folder.lines("lives");
    let of = |pod: &str| lives.iter().filter(|life| *life == pod).count();
    assert_eq!((of("job-worker-0"), of("job-worker-1")), (2, 2), "{}", ended.stdout);
    assert!(ended.stdout.contains("  7 of 8 acts were done, 1 missed\n"), "{}", ended.stdout);
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn the_recorded_faults_of_a_seed_can_be_replayed() {
    let workspace = Workspace::new();
    let short = workspace.manifest(&job_of("job", 2, "true"));
    let message = workspace.run(&[&short, "--chaos", "5,2"]).wait_for(0).stdout;
    let listed =
        message.lines().skip_while(|line| !line.starts_with("chaos 5,2 (also in chaos.json): ")).skip(1).take(4);
    let faults: Vec<&str> = listed.map(|line| line.split_once("s ").unwrap().1).collect();
    assert_eq!(faults.len(), 4, "{message}");
    let long = workspace.manifest(&job_of("job", 2, WAIT));
    let run = workspace.run(&[&long, "--chaos", "@chaos.json"]);
    for fault in faults {
        run.await_stdout(&format!("FaultInjected: {fault}: "), 1);
    }
    workspace.folder.let_go();
    run.wait_for(0);
}

#[test]
fn a_master_follows_its_faults() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("job", 1, WAIT));
    let of_job = json!({ "namespace": "default", "name": "job" });
    script(&workspace, &[json!({ "fillDisk": { "job": of_job, "forMs": 200 } })]);
    let run = workspace.run(&[&job, "--chaos", FILE]);
    let master = workspace.await_running("job-master");
    for message in ["write_error: Some(NoSpace)", "write_error: None"] {
        eventually(message, || workspace.log(&master).contains(message).then_some(()));
    }
    workspace.folder.let_go();
    run.wait_for(0);
}

#[test]
fn an_interrupted_run_leaves_no_process_stopped_or_running() {
    let workspace = Workspace::new();
    let job = workspace.manifest(&job_of("job", 1, WAIT));
    let long = 300_000;
    let stop = |role: &str| json!({ "stop": { "slot": slot(role, 0), "forMs": long } });
    script(&workspace, &[stop("Worker"), stop("master"), json!({ "failWrites": { "forMs": long } })]);
    let run = workspace.run(&[&job, "--chaos", FILE]);
    run.await_stdout("FaultInjected: fail all writes", 1);
    let pods = workspace.pods();
    assert_eq!(pods.len(), 2);
    run.signal(Signal::SIGINT);
    run.wait_for(130);
    workspace.assert_nothing_is_left_of(&pods);
}
