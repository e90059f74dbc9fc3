//! Tests `examples/torch-mnist` under `flexor run --chaos`: torchrun, its sidecars and its master are killed and
//! stopped, and every step is trained.

use std::time::Duration;

use flexor_testbed::torch_or_skip;

use super::run::{ALL_STEPS, steps, training};
use crate::local::run::cluster::Workspace;

/// A start of torch takes ten seconds on a small machine, and every kill costs one.
const PATIENCE: Duration = Duration::from_secs(240);

#[test]
fn a_dlrover_job_ends_well_under_seed_1() {
    ends_well_under(1, "dlrover.yaml", "torch-mnist.pt");
}

#[test]
fn a_torchelastic_job_ends_well_under_seed_2() {
    ends_well_under(2, "torchelastic.yaml", "digits.pt");
}

#[test]
fn a_dlrover_job_ends_well_under_seed_3() {
    ends_well_under(3, "dlrover.yaml", "torch-mnist.pt");
}

fn ends_well_under(seed: u64, manifest: &str, checkpoint: &str) {
    let torch = torch_or_skip!();
    let workspace = Workspace::new();
    let run = training(&torch, &workspace, manifest, &["--chaos", &format!("{seed},0.2")]).patient(PATIENCE);
    let ended = run.wait_for(0);
    assert!(ended.stdout.contains(": FaultInjected: "), "{}", ended.stdout);
    assert_eq!(steps(&torch, &workspace, checkpoint), ALL_STEPS, "{}", ended.stdout);
    workspace.assert_nothing_is_left_of(&[]);
}
