//! Tests the quickstart under faults with a replication factor of two.
//!
//! It reaches the model quality of an undisturbed run, no update is lost, and none is applied twice.

use std::sync::LazyLock;

use serde_json::Value;

use super::super::super::faults::random::Random;
use super::super::cluster::Workspace;
use super::super::quickstart::running_job::{injected_faults, is_settled, latest_checkpoint, names_of_servers};
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
    let seed = flexor_seeds::or(seed);
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

/// The updates of a run without faults. The data determines the rows of every batch, so this is their count by rows.
static UNDISTURBED: LazyLock<FinishedRun> = LazyLock::new(|| {
    let quickstart = Quickstart { replication_factor: 2, ..Quickstart::default() };
    let undisturbed = quickstart.finish(&Workspace::new());
    quickstart.assert_all_is_well(&undisturbed);
    undisturbed
});

/// Whether so many servers hold everything twice, and none of them is one of these.
fn is_settled_with(count: usize, victims: Vec<String>) -> impl Fn(&Value) -> bool {
    move |status| {
        let servers = names_of_servers(status);
        servers.len() == count && victims.iter().all(|victim| !servers.contains(victim)) && is_settled(status)
    }
}

/// A server is killed as soon as every partition has two replicas again, and so on. The seed chooses the servers.
#[test]
fn servers_killed_repeatedly_lose_no_update() {
    const KILLS: u32 = 5;
    let mut random = Random::from(flexor_seeds::or(1));
    let quickstart = Quickstart { replication_factor: 2, ..Quickstart::default() };
    let undisturbed = &*UNDISTURBED;

    let workspace = Workspace::new();
    let training = quickstart.start(&workspace, &[]);
    for nth in 1..=KILLS {
        training.reaches(quickstart.share(nth, KILLS + 2));
        let mut servers = training.servers();
        let victim = servers.swap_remove(usize::try_from(random.below(servers.len() as u64)).unwrap());
        training.kill(&victim);
        let is_restored = is_settled_with(2, vec![victim]);
        training.no_further_than(quickstart.share(nth + 1, KILLS + 2), "two replicas of everything", is_restored);
    }
    let disturbed = training.finish();
    quickstart.assert_same_updates(&disturbed, undisturbed);

    let (with, without) = (disturbed.auc(), undisturbed.auc());
    println!("{KILLS} kills: an AUC of {with}, {without} without; {}", disturbed.job["updates"]);
    assert!((with - without).abs() <= 0.005, "an AUC of {with}, {without} without kills");
}

/// All servers are killed within moments, so that both replicas of a partition are lost and a checkpoint is restored.
#[test]
fn a_storm_that_waits_for_nothing_loses_the_updates_that_the_report_counts() {
    const STORMS: u32 = 2;
    let mut random = Random::from(flexor_seeds::or(1));
    let checkpoints = Some("{ folder: kept, everySeconds: 2 }");
    let quickstart = Quickstart { replication_factor: 2, checkpoints, ..Quickstart::default() };
    let workspace = Workspace::new();
    let training = quickstart.start(&workspace, &[]);
    for nth in 1..=STORMS {
        let before = latest_checkpoint(&training.status());
        let has_checkpoint = |status: &Value| is_settled(status) && latest_checkpoint(status) > before;
        training.no_further_than(quickstart.share(nth, STORMS + 2), "a checkpoint", has_checkpoint);
        // Some updates are in no checkpoint.
        training.reaches(quickstart.share(nth, STORMS + 2) + quickstart.share(1, 20));
        let mut victims = training.servers();
        if random.one_in(2) {
            victims.reverse();
        }
        victims.iter().for_each(|victim| training.kill(victim));
        let is_restored = is_settled_with(2, victims);
        training.no_further_than(quickstart.share(nth + 1, STORMS + 2), "other servers", is_restored);
    }
    let finished = training.finish();
    quickstart.assert_accounted(&finished);
    let lost = finished.updates("lost");
    assert!(lost > 0 && finished.stdout.contains(&format!("0 applied twice, {lost} lost")), "{}", finished.stdout);
    assert_eq!(finished.updates("applied") + lost, UNDISTURBED.updates("applied"), "{}", finished.stdout);
}
