//! Tests the first command of the README: the unchanged manifest in an empty folder, plain and under injected faults.
//!
//! The quickstart has a replication factor of one and no checkpoints. The injector therefore only stops its servers
//! briefly.

use std::sync::LazyLock;

use super::super::cluster::Workspace;
use super::running_job::{Training, injected_faults};
use super::{FinishedRun, PATIENCE};

const RECORDS: u32 = 600_000;

fn started<'a>(workspace: &'a Workspace, words: &[&str]) -> Training<'a> {
    let words = [&["examples/quickstart.yaml", "--report", "report"], words].concat();
    Training::new(workspace, workspace.run(&words).patient(PATIENCE))
}

/// Checks that every record is accounted for and that no update was lost or applied twice. Returns the distance to the
/// best possible AUC.
fn missing(finished: &FinishedRun) -> f64 {
    let FinishedRun { stdout, job, best } = finished;
    assert_eq!(job["outcome"], "Succeeded", "{stdout}");
    let records = &job["records"];
    assert_eq!([&records["expected"], &records["accounted"]], [RECORDS, RECORDS], "{stdout}");
    assert_eq!(records["lost"], 0, "{stdout}");
    let updates = &job["updates"];
    assert_eq!([&updates["reapplied"], &updates["lost"]], [0, 0], "{stdout}");
    println!("an AUC of {}, where {best} is possible; {updates}", finished.auc());
    best - finished.auc()
}

#[test]
fn the_quickstart_reaches_almost_the_best_possible_auc() {
    let workspace = Workspace::new();
    let finished = started(&workspace, &[]).finish();
    assert!(missing(&finished) <= 0.01, "{}", finished.stdout);
    assert!(finished.stdout.trim_end().ends_with("pods started again: 0"), "{}", finished.stdout);
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn the_quickstart_succeeds_under_seed_1() {
    ends_well_under(1);
}

#[test]
fn the_quickstart_succeeds_under_seed_2() {
    ends_well_under(2);
}

#[test]
fn the_quickstart_succeeds_under_seed_3() {
    ends_well_under(3);
}

fn ends_well_under(seed: u64) {
    static UNDISTURBED: LazyLock<FinishedRun> = LazyLock::new(|| started(&Workspace::new(), &[]).finish());
    let workspace = Workspace::new();
    let training = started(&workspace, &["--chaos", &format!("{seed},0.5")]);
    training.train_under_faults(3, RECORDS);
    let finished = training.finish();
    println!("seed {seed}: {} faults", injected_faults(&finished.stdout));
    // A killed worker loses its last count of updates, but no worker counts more than there are.
    let (updates, all) = (finished.updates("applied"), UNDISTURBED.updates("applied"));
    assert!(updates <= all, "{updates} updates, {all} without faults: {}", finished.stdout);
    assert!(missing(&finished) <= 0.01, "{}", finished.stdout);
    workspace.assert_nothing_is_left_of(&[]);
}
