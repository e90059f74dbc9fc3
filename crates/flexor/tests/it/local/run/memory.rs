//! Tests memory limits of jobs with and without cgroups: growth after an OOM kill, and leftovers.

use std::fs;
use std::path::PathBuf;

use flexor_local::limits::{MemoryLimits, of_state_dir};
use flexor_testbed::skip;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use super::super::faults::deadline::eventually;
use super::super::faults::process::server;
use super::super::launch::folder::WAIT;
use super::cluster::{LocalPod, Workspace};

const MEANS: [&str; 2] = ["--limits=auto", "--limits=watch"];
const WORKER: &str = "hungry-edljob-worker-0";

/// A job of one worker that may have 64 MiB at first.
fn hungry(script: &str) -> Value {
    let container = json!({
        "name": "main", "image": "any:image", "command": ["sh", "-c", script],
        "resources": { "limits": { "memory": "64Mi" } },
    });
    json!({
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": { "name": "hungry" },
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "optimizeMode": "manual",
            "replicaSpecs": { "worker": { "replicas": 1, "template": { "spec": { "containers": [container] } } } },
        },
    })
}

/// Where the cluster has its groups, if it has any.
fn groups(workspace: &Workspace) -> Option<PathBuf> {
    match of_state_dir(&workspace.state_dir()) {
        MemoryLimits::Cgroups(groups) => Some(groups.memory),
        MemoryLimits::Watched(_) => None,
    }
}

fn says(workspace: &Workspace, words: &[&str]) -> String {
    let mut command = server(words);
    let ran = command.arg("--state-dir").arg(workspace.state_dir().path()).output().unwrap();
    assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn an_oom_killed_worker_gets_twice_the_memory_in_its_next_incarnation() {
    // 90 MB: too much for the first incarnation and not for the second.
    let script = format!("echo life >> lives; head -c 90000000 /dev/zero | tail -c 90000000 | (sleep 0.3; {WAIT})");
    for means in MEANS {
        let workspace = Workspace::new();
        let manifest = workspace.manifest(&hungry(&script));
        let run = workspace.run(&[means, &manifest]);
        workspace.folder.await_lines("lives", 2);
        workspace.await_running(WORKER);
        let message = says(&workspace, &["describe", "pod", WORKER]);
        let by = if means == MEANS[1] { "128Mi best effort: " } else { "128Mi " };
        assert!(message.lines().any(|line| line.contains("Memory Limits:") && line.contains(by)), "{message}");
        assert!(message.contains("exit code 137, OOMKilled") && message.contains("with 128Mi of memory"), "{message}");
        let groups = groups(&workspace);
        assert!(groups.as_ref().is_none_or(|groups| groups.exists()));
        workspace.folder.let_go();
        run.wait_for(0);
        assert_eq!(workspace.folder.lines("lives").len(), 2, "{means}");
        assert!(groups.is_none_or(|groups| !groups.exists()), "nothing is left");
    }
}

#[test]
fn cgroups_of_a_cluster_killed_with_its_supervisors_are_removed_by_the_next_cluster() {
    let workspace = Workspace::new();
    let manifest = workspace.manifest(&hungry(WAIT));
    let run = workspace.run_for_good(&[&manifest]);
    let before = workspace.await_running(WORKER);
    let Some(groups) = groups(&workspace) else { skip!("no control group can be made here") };
    run.signal(Signal::SIGKILL);
    run.wait();
    workspace.pods().iter().for_each(|pod| kill(pod.supervisor(), Signal::SIGKILL).unwrap());
    assert!(groups.join(&before.status.uid).exists());
    // A cgroup of unknown origin.
    fs::create_dir(groups.join("nobody")).unwrap();
    let run = workspace.run_for_good(&["--resume"]);
    let again = |pod: &LocalPod| pod.status.uid != before.status.uid;
    eventually("another worker", || Some(workspace.await_running(WORKER)).filter(again));
    assert!(!groups.join(&before.status.uid).exists() && !groups.join("nobody").exists());
    workspace.folder.let_go();
    run.wait_for(0);
    assert!(!groups.exists());
}

#[test]
fn a_worker_and_its_group_outlive_a_run_that_is_killed() {
    let workspace = Workspace::new();
    let manifest = workspace.manifest(&hungry(WAIT));
    let run = workspace.run_for_good(&[&manifest]);
    let before = workspace.await_running(WORKER);
    let Some(groups) = groups(&workspace) else { skip!("no control group can be made here") };
    run.signal(Signal::SIGKILL);
    run.wait();
    // The next cluster leaves running pods unchanged.
    let run = workspace.run_for_good(&["--resume", "--limits=watch"]);
    eventually("another one that runs the cluster", || self::groups(&workspace).is_none().then_some(()));
    assert_eq!(workspace.await_running(WORKER).status.uid, before.status.uid);
    assert!(groups.join(&before.status.uid).exists());
    workspace.folder.let_go();
    run.wait_for(0);
    assert!(!groups.exists());
}

#[test]
fn pod_usage_is_the_same_by_cgroups_and_by_processes() {
    // A busy one, beside one that has 40 MB.
    let script = format!("head -c 40000000 /dev/zero | tail -c 40000000 | ({WAIT}) & while [ ! -e go ]; do :; done");
    for means in MEANS {
        let workspace = Workspace::new();
        let manifest = workspace.manifest(&hungry(&script));
        let run = workspace.run(&[means, &manifest]);
        workspace.await_running(WORKER);
        let (cpu, memory) = eventually("all of the memory", || {
            let metrics: Value = serde_json::from_str(&says(&workspace, &["top", "-o", "json"])).unwrap();
            let pod = metrics["items"].as_array()?.iter().find(|pod| pod["metadata"]["name"] == WORKER)?.clone();
            let main = pod["containers"].as_array()?.iter().find(|container| container["name"] == "main")?;
            let number = |field: &str, unit: char| main["usage"][field].as_str()?.trim_end_matches(unit).parse().ok();
            let (cpu, memory): (u64, u64) =
                (number("cpu", 'm')?, main["usage"]["memory"].as_str()?.trim_end_matches("Ki").parse().ok()?);
            (memory > 39_000).then_some((cpu, memory))
        });
        assert!((20..=1100).contains(&cpu), "{means}: {cpu}m of a processor");
        assert!((39_000..=60_000).contains(&memory), "{means}: {memory}Ki");
        workspace.folder.let_go();
        run.wait_for(0);
    }
}
