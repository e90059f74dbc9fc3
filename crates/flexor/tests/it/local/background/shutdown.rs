//! Tests the end of a background cluster: with the grace period of its pods or at once, and without leftovers.

use std::time::{Duration, Instant};

use flexor_local::proc;
use nix::sys::signal::{Signal, kill};
use serde_json::json;

use super::super::run::cluster::{LocalPod, job_of, job_with};
use super::cluster::BackgroundCluster;

const POLITE: &str = "trap 'echo ended >> ends; exit 0' TERM; echo begun >> begins; while :; do sleep 0.02; done";
const STUBBORN: &str = "trap '' TERM; echo begun >> begins; while :; do sleep 0.02; done";

fn begun(cluster: &BackgroundCluster, script: &str) -> Vec<LocalPod> {
    let job = cluster.workspace.manifest(&job_of("job", 2, script));
    cluster.says(&["local", "up", &job]);
    cluster.workspace.folder.await_lines("begins", 2);
    ["job-master", "job-worker-0", "job-worker-1"].map(|pod| cluster.workspace.await_running(pod)).into()
}

#[test]
fn down_lets_programs_end_and_leaves_nothing_behind() {
    let cluster = BackgroundCluster::new();
    let pods = begun(&cluster, POLITE);
    let ran = cluster.flexor(&["local", "down"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(cluster.shown(&ran.stderr), "process PID ends its pods; `flexor local down --now` kills them\n");
    assert_eq!(cluster.workspace.folder.lines("ends").len(), 2, "both had time to end");
    cluster.workspace.assert_nothing_is_left_of(&pods);
    assert_eq!(cluster.says(&["local", "down"]), "no laptop cluster is up in DIR/home\n");
}

#[test]
fn a_signal_ends_the_cluster_like_down() {
    let cluster = BackgroundCluster::new();
    let pods = begun(&cluster, POLITE);
    let pid = cluster.process();
    let start = proc::started(pid.as_raw()).unwrap();
    kill(pid, Signal::SIGTERM).unwrap();
    cluster.eventually("its end", || (!proc::is_alive((pid.as_raw(), start))).then_some(()));
    assert_eq!(cluster.workspace.folder.lines("ends").len(), 2);
    cluster.workspace.assert_nothing_is_left_of(&pods);
}

#[test]
fn now_does_not_wait_for_programs_that_ignore_sigterm() {
    let cluster = BackgroundCluster::new();
    let pods = begun(&cluster, STUBBORN);
    let begin = Instant::now();
    assert_eq!(cluster.says(&["local", "down", "--now"]), "the laptop cluster in DIR/home is down\n");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    cluster.workspace.assert_nothing_is_left_of(&pods);
}

#[test]
fn programs_that_ignore_sigterm_get_their_grace_period() {
    let cluster = BackgroundCluster::new();
    let container = json!({ "name": "elasticjob-worker", "image": "any", "command": ["sh", "-c", STUBBORN] });
    let mut job = job_with("job", 1, &container);
    job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    cluster.says(&["local", "up", &cluster.workspace.manifest(&job)]);
    cluster.workspace.folder.await_lines("begins", 1);
    let begin = Instant::now();
    cluster.says(&["local", "down"]);
    assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());
    cluster.workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn a_stopped_cluster_process_is_reported_and_ended() {
    let cluster = BackgroundCluster::new();
    let pods = begun(&cluster, POLITE);
    let pid = cluster.process();
    kill(pid, Signal::SIGSTOP).unwrap();
    let ran = cluster.flexor(&["local", "status"]);
    assert_eq!(ran.code, 3);
    assert_eq!(
        cluster.shown(&ran.stdout),
        "the laptop cluster in DIR/home does not answer (process PID); `flexor local down --now` ends it\n"
    );
    cluster.says(&["local", "down", "--now"]);
    cluster.workspace.assert_nothing_is_left_of(&pods);
}
