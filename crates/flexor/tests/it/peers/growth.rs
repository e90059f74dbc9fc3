//! Tests a DLRover all-reduce job under `flexor run` that the user scales beyond its manifest.

use flexor_testbed::torch_or_skip;

use super::run::{ALL_STEPS, steps, training};
use crate::local::{faults::process::server, run::cluster::Workspace};

#[test]
fn a_third_worker_joins_a_dlrover_job_that_has_asked_for_two() {
    let torch = torch_or_skip!();
    let workspace = Workspace::new();
    let run = training(&torch, &workspace, "dlrover.yaml", &[]);
    let printed = |worker: u32, text: &str| {
        let name = format!("torch-mnist-edljob-worker-{worker}");
        workspace.pods().iter().any(|pod| pod.name == name && workspace.log(pod).contains(text))
    };
    run.await_or_explain("both to train", || printed(0, " step 10 loss ") && printed(1, " step 10 loss "));
    let mut scale = server(&["scale", "torch-mnist", "--worker", "3", "--state-dir", "home"]);
    let scaled = scale.current_dir(workspace.folder.path()).output().unwrap();
    assert!(scaled.status.success(), "{}", String::from_utf8_lossy(&scaled.stderr));
    run.await_or_explain("a world of three", || (0..3).all(|worker| printed(worker, "/3 restart ")));
    run.wait_for(0);
    assert_eq!(steps(&torch, &workspace, "torch-mnist.pt"), ALL_STEPS);
}
