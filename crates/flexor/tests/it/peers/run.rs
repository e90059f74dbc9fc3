//! Tests the manifests of `examples/torch-mnist` under `flexor run`: a worker or the master is killed, and the job
//! trains to its end.

use std::{env, fs, process::Command};

use flexor_testbed::{Torch, torch_or_skip};
use nix::sys::signal::{Signal, kill};

use super::job::DEADLINE;
use crate::{
    local::{
        launch::launcher::Launcher,
        run::cluster::{LocalPod, Workspace},
    },
    program::root,
};

/// One epoch of 6000 digits in batches of 96.
pub const ALL_STEPS: u64 = 63;

#[test]
fn a_dlrover_job_of_stock_torchrun_survives_the_kill_of_a_worker() {
    survives("dlrover.yaml", "torch-mnist.pt", ["torch-mnist-edljob-worker-0", "torch-mnist-edljob-worker-1"]);
}

#[test]
fn a_torchelastic_job_of_stock_torchrun_survives_the_kill_of_a_worker() {
    survives("torchelastic.yaml", "digits.pt", ["digits-worker-0", "digits-worker-1"]);
}

#[test]
fn a_job_of_our_launcher_survives_the_kill_of_a_worker() {
    survives("launch.yaml", "digits-launch.pt", ["digits-launch-worker-0", "digits-launch-worker-1"]);
}

#[test]
fn stock_torchrun_does_not_notice_that_its_master_was_killed() {
    let torch = torch_or_skip!();
    let workspace = Workspace::new();
    let run = training(&torch, &workspace, "torchelastic.yaml", &[]);
    for worker in ["digits-worker-0", "digits-worker-1"] {
        run.await_or_explain(&format!("step 20 of {worker}"), || has_printed(&workspace, worker, " step 20 loss "));
    }
    let workers = ["digits-worker-0", "digits-worker-1"].map(|worker| workspace.await_running(worker));
    kill(workspace.await_running("digits-master").main_id().unwrap(), Signal::SIGKILL).unwrap();
    run.await_or_explain("step 45 of the same processes", || {
        workers.iter().all(|worker| {
            let log = workspace.log(worker);
            log.contains(" step 45 loss ") && log.matches(" starts at step ").count() == 1
        })
    });
    let ended = run.wait_for(0);
    assert!(ended.stdout.trim_end().ends_with("pods started again: 1"), "the master: {}", ended.stdout);
    assert_eq!(steps(&torch, &workspace, "digits.pt"), ALL_STEPS);
}

/// More often than a program may fail.
#[test]
fn killing_a_sidecar_again_and_again_charges_nothing() {
    const EPOCHS: u64 = 3;
    let torch = torch_or_skip!();
    let workspace = Workspace::new();
    let run = training_for(EPOCHS, &torch, &workspace, "torchelastic.yaml", &[]);
    let worker = || workspace.pods().into_iter().find(|pod| pod.name == "digits-worker-0");
    let mut step = 0;
    for _ in 0..4 {
        run.await_or_explain(&format!("ten steps after {step}"), || {
            let reached = worker().and_then(|pod| last_step(&workspace.log(&pod))).unwrap_or(0);
            reached >= step + 10
        });
        step = worker().and_then(|pod| last_step(&workspace.log(&pod))).unwrap();
        kill(worker().unwrap().id_of("flexor-sidecar").unwrap(), Signal::SIGKILL).unwrap();
    }
    let ended = run.wait_for(0);
    assert!(ended.stdout.contains("started again   4 killed\n"), "nothing failed by itself: {}", ended.stdout);
    assert_eq!(steps(&torch, &workspace, "digits.pt"), EPOCHS * ALL_STEPS);
}

/// Runs a manifest, kills the first of its workers, and sees both go on from a checkpoint to the end.
fn survives(manifest: &str, checkpoint: &str, workers: [&str; 2]) {
    let torch = torch_or_skip!();
    let workspace = Workspace::new();
    let run = training(&torch, &workspace, manifest, &[]);
    for worker in workers {
        run.await_or_explain(&format!("step 20 of {worker}"), || has_printed(&workspace, worker, " step 20 loss "));
    }
    let victim = workspace.await_running(workers[0]);
    kill(victim.main_id().unwrap(), Signal::SIGKILL).unwrap();
    let restarted = |pod: &LocalPod| pod.status.uid != victim.status.uid;
    run.await_or_explain("the successor's start", || {
        let successor = workspace.pods().into_iter().find(|pod| pod.name == workers[0]).filter(restarted);
        successor
            .is_some_and(|pod| resumed_at(&workspace.log(&pod)).is_some_and(|step| (20..ALL_STEPS).contains(&step)))
    });
    let ended = run.wait_for(0);
    assert!(ended.stdout.contains(&format!("{}: Succeeded", workers[0])), "{}", ended.stdout);
    assert_eq!(steps(&torch, &workspace, checkpoint), ALL_STEPS);
    workspace.assert_nothing_is_left_of(&[victim]);
}

/// A manifest of the example, with one slow epoch, and more arguments for `flexor run`.
pub fn training(torch: &Torch, workspace: &Workspace, manifest: &str, more: &[&str]) -> Launcher {
    training_for(1, torch, workspace, manifest, more)
}

fn training_for(epochs: u64, torch: &Torch, workspace: &Workspace, manifest: &str, more: &[&str]) -> Launcher {
    let text = fs::read_to_string(root().join("examples/torch-mnist").join(manifest)).unwrap();
    let slowly = text.replace("--epochs=5", &format!("--epochs={epochs}, --sleep=0.1, --log-every=5"));
    assert_ne!(slowly, text, "the manifest says how many epochs");
    fs::write(workspace.folder.path().join("job.yaml"), slowly).unwrap();
    let path = format!("{}:{}", torch.python().parent().unwrap().display(), env::var("PATH").unwrap());
    Launcher::start(workspace.command(&["job.yaml", "--ephemeral"]).args(more).env("PATH", path)).patient(DEADLINE)
}

fn has_printed(workspace: &Workspace, worker: &str, text: &str) -> bool {
    workspace.pods().iter().any(|pod| pod.name == worker && workspace.log(pod).contains(text))
}

/// The last step that a program has printed.
fn last_step(log: &str) -> Option<u64> {
    log.rsplit_once(" loss ")?.0.rsplit_once(" step ")?.1.parse().ok()
}

/// The step from which a program started.
fn resumed_at(log: &str) -> Option<u64> {
    log.split(" starts at step ").nth(1)?.lines().next()?.trim().parse().ok()
}

/// How many steps the final model of a job has trained.
pub fn steps(torch: &Torch, workspace: &Workspace, checkpoint: &str) -> u64 {
    let script = format!("import torch; print(torch.load('{checkpoint}')['progress']['step'])");
    let python =
        Command::new(torch.python()).args(["-c", &script]).current_dir(workspace.folder.path()).output().unwrap();
    let text = String::from_utf8(python.stdout).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&python.stderr)))
}
