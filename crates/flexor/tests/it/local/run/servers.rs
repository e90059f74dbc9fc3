//! Tests jobs with parameter servers: the quickstart, and servers that are added and removed during training.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::cluster::Workspace;
use super::quickstart::running_job::{is_settled, latest_checkpoint, names_of_servers};
use super::quickstart::{FinishedRun, PATIENCE, Quickstart};
use crate::program::root;

#[test]
fn the_first_command_of_the_readme_learns_and_accounts_for_every_record() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let manifest = readme.lines().find_map(|line| line.strip_prefix("cargo run --release -- run ")).unwrap();
    let workspace = Workspace::new();
    let ended = workspace.run(&[manifest, "--report", "report"]).patient(PATIENCE).wait_for(0);
    assert!(ended.stdout.contains("600000 expected, 600000 accounted for, 0 recomputed, 0 lost"), "{}", ended.stdout);
    assert!(ended.stdout.contains("0 applied twice, 0 lost"), "{}", ended.stdout);
    let finished = FinishedRun::read(&workspace, ended);
    assert!(finished.auc() > finished.best - 0.01, "{} of {}: {}", finished.auc(), finished.best, finished.stdout);
}

#[test]
fn servers_and_workers_are_added_and_removed_during_training() {
    let workspace = Workspace::new();
    let quickstart = Quickstart::default();
    let training = quickstart.start(&workspace, &[]);
    training.reaches(quickstart.share(1, 10));
    workspace.says(&["scale", "quickstart", "--ps", "3", "--worker", "2"]);
    training.no_further_than(quickstart.share(4, 10), "a third server and a third worker", |status| {
        names_of_servers(status).len() == 3 && is_settled(status) && runs(&workspace, "worker-1")
    });
    training.kill("quickstart-edljob-worker-0");
    training.no_further_than(quickstart.share(6, 10), "a worker in its place", |_| runs(&workspace, "worker-2"));
    workspace.says(&["scale", "quickstart", "--ps", "1"]);
    training.no_further_than(quickstart.share(8, 10), "two servers to go", |status| {
        names_of_servers(status) == ["quickstart-edljob-ps-0"] && !runs(&workspace, "ps-1") && !runs(&workspace, "ps-2")
    });
    quickstart.assert_all_is_well(&training.finish());
}

fn runs(workspace: &Workspace, pod: &str) -> bool {
    workspace.pods().iter().any(|one| one.name == format!("quickstart-edljob-{pod}") && one.main_id().is_some())
}

/// With a replication factor of one and checkpoints, a lost server costs the updates since the last checkpoint. The
/// report says how many.
#[test]
fn without_backups_a_server_killed_every_ten_seconds_loses_only_updates_since_its_checkpoint() {
    const KILLS: u32 = 2;
    let workspace = Workspace::new();
    let quickstart =
        Quickstart { checkpoints: Some("{ folder: kept, everySeconds: 2 }"), batch: 32, ..Quickstart::default() };
    let training = quickstart.start(&workspace, &[]);
    let mut last = Instant::now();
    for nth in 1..=KILLS {
        let before = latest_checkpoint(&training.status());
        training.no_further_than(quickstart.share(nth, KILLS + 2), "ten seconds and a checkpoint", |status| {
            is_settled(status) && last.elapsed() >= Duration::from_secs(10) && latest_checkpoint(status) > before
        });
        // Some updates are in no checkpoint.
        training.reaches(quickstart.share(nth, KILLS + 2) + quickstart.share(1, 20));
        let victim = training.servers().remove(0);
        training.kill(&victim);
        last = Instant::now();
        training.no_further_than(quickstart.share(nth + 1, KILLS + 2), "another server", |status| {
            let servers = names_of_servers(status);
            servers.len() == 2 && !servers.contains(&victim) && is_settled(status)
        });
    }
    let finished = training.finish();
    quickstart.assert_accounted(&finished);
    let lost = finished.updates("lost");
    // No update is missing except those reported as lost, and none is applied twice.
    let undisturbed = Quickstart { checkpoints: None, ..quickstart }.finish(&Workspace::new());
    assert_eq!(finished.updates("applied") + lost, undisturbed.updates("applied"), "{}", finished.stdout);
    assert!(lost > 0 && finished.stdout.contains(&format!("0 applied twice, {lost} lost")), "{}", finished.stdout);
    assert!(finished.stdout.contains("PartitionsRestored"), "{}", finished.stdout);
}

/// A server that is only stopped, or unreachable, has the only copy of its updates: the job waits for it.
#[test]
fn a_server_that_was_unreachable_for_a_while_keeps_its_updates() {
    let workspace = Workspace::new();
    let quickstart = Quickstart::default();
    let training = quickstart.start(&workspace, &[]);
    training.reaches(quickstart.share(1, 10));
    let sleeper = training.servers().remove(1);
    training.signal(&sleeper, Signal::SIGSTOP);
    training.until("the master to miss it", |status| {
        let servers = status["servers"]["servers"].as_array().into_iter().flatten();
        servers.into_iter().any(|server| server["name"] == *sleeper && server["address"].is_null())
    });
    training.signal(&sleeper, Signal::SIGCONT);
    let finished = training.finish();
    quickstart.assert_same_updates(&finished, &quickstart.finish(&Workspace::new()));
    assert!(!finished.stdout.contains("PartitionsRestored"), "{}", finished.stdout);
}

#[test]
fn a_master_that_is_killed_again_and_again_costs_no_update() {
    const KILLS: u32 = 3;
    let workspace = Workspace::new();
    let quickstart = Quickstart::default();
    let training = quickstart.start(&workspace, &[]);
    for nth in 1..=KILLS {
        training.reaches(quickstart.share(nth, KILLS + 1));
        training.kill("elasticjob-quickstart-dlrover-master");
    }
    quickstart.assert_same_updates(&training.finish(), &quickstart.finish(&Workspace::new()));
}

#[test]
fn a_single_server_cannot_hold_backups_and_a_warning_says_so() {
    let workspace = Workspace::new();
    let quickstart = Quickstart { servers: 1, replication_factor: 2, ..Quickstart::default() };
    let training = quickstart.start(&workspace, &[]);
    training.reaches(quickstart.share(1, 10));
    assert_eq!(training.status()["servers"]["redundant"], false);
    let message = "NoServerForBackup";
    assert!(training.stdout().contains(message), "{}", training.stdout());
    let described = workspace.says(&["describe", "elasticjob", "quickstart"]);
    let line = described.lines().find(|line| line.contains(message)).unwrap_or_else(|| panic!("{described}"));
    assert!(
        line.contains("Warning")
            && line.contains("ps is to have 1 replica: one server has no place for the second copy"),
        "{line}"
    );

    workspace.says(&["scale", "quickstart", "--ps", "2"]);
    training.no_further_than(quickstart.share(5, 10), "a backup in sync", is_settled);
    workspace.says(&["scale", "quickstart", "--ps", "1"]);
    training.no_further_than(quickstart.share(8, 10), "a server to go", |_| {
        training.stdout().matches(message).count() == 2 && !runs(&workspace, "ps-1")
    });
    quickstart.assert_same_updates(&training.finish(), &quickstart.finish(&Workspace::new()));
}
