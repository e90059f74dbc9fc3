//! Tests `--cpus`: a pod without room stays pending and says so, and a higher priority preempts.

use flexor_local::pods::status::PodPhase;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::super::faults::deadline::eventually;
use super::cluster::{Workspace, job_with};

/// Runs until the file `NAME.done` is there, where NAME is the job's.
fn workers(name: &str, replicas: u32, cpu: &str, class: Option<&str>) -> Value {
    let script = format!("until test -e {name}.done; do sleep 0.02; done");
    let container = json!({
        "name": "elasticjob-worker",
        "image": "any:image",
        "command": ["sh", "-c", script],
        "resources": { "requests": { "cpu": cpu } },
    });
    let mut job = job_with(name, replicas, &container);
    if let Some(class) = class {
        job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = class.into();
    }
    job
}

fn done(workspace: &Workspace, name: &str) {
    std::fs::write(workspace.folder.path().join(format!("{name}.done")), "").unwrap();
}

fn running(workspace: &Workspace) -> Vec<String> {
    let workers = workspace.pods().into_iter().filter(|pod| !pod.name.ends_with("master"));
    workers.filter(|pod| pod.status.phase == PodPhase::Running).map(|pod| pod.name).collect()
}

fn await_these_run(workspace: &Workspace, names: &[&str]) {
    eventually(&format!("{names:?} to run"), || (running(workspace) == names).then_some(()));
}

#[test]
fn an_unschedulable_pod_waits_for_room() {
    let workspace = Workspace::new();
    let manifest = workspace.manifest(&workers("narrow", 3, "750m", None));
    let run = workspace.run(&[&manifest, "--cpus", "2"]);
    await_these_run(&workspace, &["narrow-worker-0", "narrow-worker-1"]);
    let pods = workspace.says(&["get", "pods"]);
    let waits = pods.lines().find(|line| line.starts_with("narrow-worker-2")).unwrap();
    assert!(waits.contains("0/1") && waits.contains("Pending"), "{pods}");
    let why = "it asks for 0.75 CPUs, 0.5 of 2 are free; 2 such pods fit in all";
    let message = workspace.says(&["describe", "pod", "narrow-worker-2"]);
    assert!(message.contains(why), "{message}");
    done(&workspace, "narrow");
    let ended = run.wait_for(0);
    assert!(ended.stdout.contains(&format!("narrow-worker-2: Unschedulable: {why}")), "{}", ended.stdout);
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn preemption_takes_only_the_needed_room_and_the_preempted_job_regains_it() {
    let workspace = Workspace::new();
    let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": "urgent" }, "value": 1000 });
    let files = [workspace.manifest(&class), workspace.manifest(&workers("patient", 4, "1", None))];
    let run = workspace.run(&[&files[0], &files[1], "--cpus", "4"]);
    await_these_run(&workspace, &["patient-worker-0", "patient-worker-1", "patient-worker-2", "patient-worker-3"]);
    let before = [0, 1].map(|rank| workspace.await_running(&format!("patient-worker-{rank}")).main_id());
    let manifest = workspace.manifest(&workers("hurried", 2, "1", Some("urgent")));
    workspace.says(&["apply", "-f", &manifest]);
    await_these_run(&workspace, &["hurried-worker-0", "hurried-worker-1", "patient-worker-0", "patient-worker-1"]);
    let pods = workspace.says(&["get", "pods"]);
    assert_eq!(pods.lines().filter(|line| line.contains("Pending")).count(), 2, "{pods}");
    done(&workspace, "hurried");
    await_these_run(&workspace, &["patient-worker-0", "patient-worker-1", "patient-worker-2", "patient-worker-3"]);
    let after = [0, 1].map(|rank| workspace.await_running(&format!("patient-worker-{rank}")).main_id());
    assert_eq!(before, after, "those that need not go were left alone");
    done(&workspace, "patient");
    let ended = run.wait_for(0);
    let evicted = |pod: &str| ended.stdout.lines().filter(|line| line.contains(&format!("{pod}: Preempted"))).count();
    let counts = [0, 1, 2, 3].map(|rank| evicted(&format!("patient-worker-{rank}")));
    assert_eq!(counts, [0, 0, 1, 1], "{}", ended.stdout);
}

#[test]
fn a_pending_pod_stays_pending_across_a_takeover() {
    let workspace = Workspace::new();
    let manifest = workspace.manifest(&workers("narrow", 2, "1", None));
    let run = workspace.run_for_good(&[&manifest, "--cpus", "1"]);
    await_these_run(&workspace, &["narrow-worker-0"]);
    run.signal(Signal::SIGKILL);
    run.wait();
    let run = workspace.run_for_good(&["--resume", "--cpus", "1"]);
    let first = workspace.await_running("narrow-worker-0");
    let message = eventually("the second to wait", || {
        let message = run.stdout();
        message.contains("narrow-worker-1: Unschedulable").then_some(message)
    });
    assert!(!message.contains("narrow-worker-1: PodWanted"), "it is the one that waited before: {message}");
    done(&workspace, "narrow");
    let ended = run.wait_for(0);
    assert!(!ended.stdout.contains("Preempted"), "{}", ended.stdout);
    workspace.assert_nothing_is_left_of(&[first]);
}

#[test]
fn a_number_of_cpus_has_to_be_one() {
    let workspace = Workspace::new();
    let manifest = workspace.manifest(&workers("narrow", 1, "1", None));
    for wrong in ["0", "-1", "many"] {
        let ended = workspace.run(&[&manifest, &format!("--cpus={wrong}")]).wait_for(2);
        assert!(ended.stderr.contains("--cpus"), "{}", ended.stderr);
    }
}
