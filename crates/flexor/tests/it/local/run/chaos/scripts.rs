//! Scripts that were written by hand: each act does what it says, or is told to have been missed.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::super::super::faults::waiting::eventually;
use super::super::super::launch::folder::WAIT;
use super::super::cluster::{Place, job_of};

/// Where a script is expected to be.
const FILE: &str = "@acts.json";

fn slot(role: &str, rank: u32) -> Value {
    json!({ "job": { "namespace": "default", "name": "job" }, "role": role, "rank": rank })
}

/// Writes a script of these deeds, 50 ms from one to the next.
fn script(place: &Place, deeds: &[Value]) {
    let acts = deeds.iter().enumerate().map(|(index, fault)| json!({ "atMs": 700 + 50 * index, "fault": fault }));
    let script = json!({ "version": 1, "seed": 0, "rate": 1, "faults": acts.collect::<Vec<_>>() });
    fs::write(place.folder.path().join("acts.json"), script.to_string()).unwrap();
}

#[test]
fn each_act_hits_whom_it_names_and_the_job_ends_well() {
    let place = Place::new();
    let job = place.manifest(&job_of("job", 2, &format!("echo $POD_NAME >> lives; {WAIT}")));
    let of_job = json!({ "namespace": "default", "name": "job" });
    script(
        &place,
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
    let run = place.run(&[&job, "--chaos", FILE]);
    for told in [
        "job-worker-0: FaultInjected: kill Worker 0 of job: process ",
        "job-worker-1: FaultInjected: kill the parent of Worker 1 of job: process ",
        "default/job: FaultInjected: kill the sidecar of Worker 7 of job: missed, there is no such pod at the moment",
        "job-master: FaultInjected: stop master 0 of job for 0.3s: 1 processes",
        "default/job: FaultInjected: fill the disk of default/job for 0.2s: its master is told",
        "default/job: FaultInjected: slow the disk of default/job by 50ms for 0.2s: its master is told",
        "default/job: FaultInjected: set the clock of default/job back by 60s: its master is told",
        "default/job: FaultInjected: fail all writes of the cluster for 0.3s",
    ] {
        run.await_stdout(told, 1);
    }
    place.folder.await_lines("lives", 4);
    place.folder.let_go();
    let ended = run.wait_for(0);
    let lives = place.folder.lines("lives");
    let of = |pod: &str| lives.iter().filter(|life| *life == pod).count();
    assert_eq!((of("job-worker-0"), of("job-worker-1")), (2, 2), "{}", ended.stdout);
    assert!(ended.stdout.contains("  7 of 8 faults were injected, 1 missed\n"), "{}", ended.stdout);
    place.assert_nothing_is_left_of(&[]);
}

#[test]
fn what_a_seed_has_left_behind_is_done_again() {
    let place = Place::new();
    let short = place.manifest(&job_of("job", 2, "true"));
    let told = place.run(&[&short, "--chaos", "5,2"]).wait_for(0).stdout;
    let listed = told.lines().skip_while(|line| !line.starts_with("chaos 5,2 (also in chaos.json): ")).skip(1).take(4);
    let deeds: Vec<&str> = listed.map(|line| line.split_once("s ").unwrap().1).collect();
    assert_eq!(deeds.len(), 4, "{told}");
    let long = place.manifest(&job_of("job", 2, WAIT));
    let run = place.run(&[&long, "--chaos", "@chaos.json"]);
    for fault in deeds {
        run.await_stdout(&format!("FaultInjected: {fault}: "), 1);
    }
    place.folder.let_go();
    run.wait_for(0);
}

#[test]
fn a_master_follows_its_faults() {
    let place = Place::new();
    let job = place.manifest(&job_of("job", 1, WAIT));
    let of_job = json!({ "namespace": "default", "name": "job" });
    script(&place, &[json!({ "fillDisk": { "job": of_job, "forMs": 200 } })]);
    let run = place.run(&[&job, "--chaos", FILE]);
    let master = place.await_running("job-master");
    for told in ["write_error: Some(NoSpace)", "write_error: None"] {
        eventually(told, || place.log(&master).contains(told).then_some(()));
    }
    place.folder.let_go();
    run.wait_for(0);
}

#[test]
fn a_run_that_is_interrupted_leaves_nothing_stopped_and_nothing_behind() {
    let place = Place::new();
    let job = place.manifest(&job_of("job", 1, WAIT));
    let long = 300_000;
    let stop = |role: &str| json!({ "stop": { "slot": slot(role, 0), "forMs": long } });
    script(&place, &[stop("Worker"), stop("master"), json!({ "failWrites": { "forMs": long } })]);
    let run = place.run(&[&job, "--chaos", FILE]);
    run.await_stdout("FaultInjected: fail all writes", 1);
    let pods = place.pods();
    assert_eq!(pods.len(), 2);
    run.signal(Signal::SIGINT);
    run.wait_for(130);
    place.assert_nothing_is_left_of(&pods);
}
