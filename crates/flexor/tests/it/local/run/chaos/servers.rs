//! Tests the quickstart under faults with a replication factor of two.
//!
//! It reaches the model quality of an undisturbed run, no update is lost, and none is applied twice.

use std::sync::LazyLock;

use super::super::cluster::Workspace;
use super::super::quickstart::running_job::{injected_faults, is_settled, names_of_servers};
use super::super::quickstart::{FinishedRun, Quickstart};

#[test]
fn no_update_is_lost_under_seed_1() {
    ends_well_under(1);
}

#[test]
fn no_update_is_lost_under_seed_2() {
    ends_well_under(2);
}

#[test]
fn no_update_is_lost_under_seed_3() {
    ends_well_under(3);
}

fn ends_well_under(seed: u64) {
    static UNDISTURBED: LazyLock<FinishedRun> = LazyLock::new(|| harmed().finish(&Workspace::new()));
    let (workspace, quickstart) = (Workspace::new(), harmed());
    let training = quickstart.start(&workspace, &["--chaos", &format!("{seed},0.5")]);
    training.train_under_faults(3, quickstart.records);
    let finished = training.finish();
    quickstart.assert_all_is_well(&finished);
    // A killed worker loses its last count of updates, but no worker counts more than there are.
    let (updates, all) = (finished.updates("applied"), UNDISTURBED.updates("applied"));
    assert!(updates <= all, "{updates} updates, {all} without faults: {}", finished.stdout);
    println!(
        "seed {seed}: {} faults; an AUC of {}, {}",
        injected_faults(&finished.stdout),
        finished.auc(),
        finished.job["updates"]
    );
    workspace.assert_nothing_is_left_of(&[]);
}

fn harmed() -> Quickstart<'static> {
    Quickstart { records: 120_000, replication_factor: 2, ..Quickstart::default() }
}

/// A server is killed as soon as everything is kept twice again, and so on.
#[test]
fn servers_killed_repeatedly_lose_no_update() {
    const KILLS: u32 = 5;
    let quickstart = Quickstart { replication_factor: 2, ..Quickstart::default() };
    let undisturbed = quickstart.finish(&Workspace::new());
    quickstart.assert_all_is_well(&undisturbed);

    let workspace = Workspace::new();
    let training = quickstart.start(&workspace, &[]);
    for nth in 1..=KILLS {
        training.reaches(quickstart.share(nth, KILLS + 2));
        let victim = training.servers().remove(0);
        training.kill(&victim);
        training.no_further_than(quickstart.share(nth + 1, KILLS + 2), "everything to be kept twice again", |status| {
            let servers = names_of_servers(status);
            servers.len() == 2 && !servers.contains(&victim) && is_settled(status)
        });
    }
    let disturbed = training.finish();
    quickstart.assert_same_updates(&disturbed, &undisturbed);

    let (with, without) = (disturbed.auc(), undisturbed.auc());
    println!("{KILLS} kills: an AUC of {with}, {without} without; {}", disturbed.job["updates"]);
    assert!((with - without).abs() <= 0.005, "an AUC of {with}, {without} without kills");
}
