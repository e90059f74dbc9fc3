//! Jobs with parameter servers: the quickstart, and servers that come and go while it trains.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::cluster::Place;
use super::quickstart::training::{is_settled, latest_checkpoint, names_of_servers};
use super::quickstart::{Finished, PATIENCE, Quickstart};
use crate::program::root;

#[test]
fn the_first_command_of_the_readme_learns_and_accounts_for_every_record() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let manifest = readme.lines().find_map(|line| line.strip_prefix("cargo run --release -- run ")).unwrap();
    let place = Place::new();
    let ended = place.run(&[manifest, "--report", "report"]).patient(PATIENCE).wait_for(0);
    assert!(ended.stdout.contains("600000 expected, 600000 accounted for, 0 recomputed, 0 lost"), "{}", ended.stdout);
    assert!(ended.stdout.contains("0 applied twice, 0 lost"), "{}", ended.stdout);
    let finished = Finished::read(&place, ended);
    assert!(finished.auc() > finished.best - 0.01, "{} of {}: {}", finished.auc(), finished.best, finished.stdout);
}

#[test]
fn servers_and_workers_come_and_go_while_it_trains() {
    let place = Place::new();
    let quickstart = Quickstart::default();
    let training = quickstart.start(&place, &[]);
    training.reaches(quickstart.share(1, 10));
    place.says(&["scale", "quickstart", "--ps", "3", "--worker", "2"]);
    training.no_further_than(quickstart.share(4, 10), "a third server and a third worker", |status| {
        names_of_servers(status).len() == 3 && is_settled(status) && runs(&place, "worker-1")
    });
    training.kill("quickstart-edljob-worker-0");
    training.no_further_than(quickstart.share(6, 10), "a worker in its place", |_| runs(&place, "worker-2"));
    place.says(&["scale", "quickstart", "--ps", "1"]);
    training.no_further_than(quickstart.share(8, 10), "two servers to go", |status| {
        names_of_servers(status) == ["quickstart-edljob-ps-0"] && !runs(&place, "ps-1") && !runs(&place, "ps-2")
    });
    quickstart.assert_all_is_well(&training.finish());
}

fn runs(place: &Place, pod: &str) -> bool {
    place.pods().iter().any(|one| one.name == format!("quickstart-edljob-{pod}") && one.main_id().is_some())
}

/// With one copy and checkpoints a lost server costs the updates since the last of them, and the report says how many.
#[test]
fn with_one_copy_a_server_that_is_killed_every_ten_seconds_costs_what_it_had_learnt_since_its_checkpoint() {
    const KILLS: u32 = 2;
    let place = Place::new();
    let quickstart =
        Quickstart { checkpoints: Some("{ folder: kept, everySeconds: 2 }"), batch: 32, ..Quickstart::default() };
    let training = quickstart.start(&place, &[]);
    let mut last = Instant::now();
    for nth in 1..=KILLS {
        let before = latest_checkpoint(&training.status());
        training.no_further_than(quickstart.share(nth, KILLS + 2), "ten seconds and a checkpoint", |status| {
            is_settled(status) && last.elapsed() >= Duration::from_secs(10) && latest_checkpoint(status) > before
        });
        // Something is learnt that no checkpoint has.
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
    // None is missing but what is told as lost, and none is there twice.
    let undisturbed = Quickstart { checkpoints: None, ..quickstart }.finish(&Place::new());
    assert_eq!(finished.updates("applied") + lost, undisturbed.updates("applied"), "{}", finished.stdout);
    assert!(lost > 0 && finished.stdout.contains(&format!("0 applied twice, {lost} lost")), "{}", finished.stdout);
    assert!(finished.stdout.contains("PartitionsRestored"), "{}", finished.stdout);
}

/// One that is only stopped, or out of reach, has what nobody else has: it is waited for.
#[test]
fn a_server_that_was_away_for_a_while_still_has_what_it_had_learnt() {
    let place = Place::new();
    let quickstart = Quickstart::default();
    let training = quickstart.start(&place, &[]);
    training.reaches(quickstart.share(1, 10));
    let sleeper = training.servers().remove(1);
    training.signal(&sleeper, Signal::SIGSTOP);
    training.until("the master to miss it", |status| {
        let servers = status["servers"]["servers"].as_array().into_iter().flatten();
        servers.into_iter().any(|server| server["name"] == *sleeper && server["address"].is_null())
    });
    training.signal(&sleeper, Signal::SIGCONT);
    let finished = training.finish();
    quickstart.assert_same_updates(&finished, &quickstart.finish(&Place::new()));
    assert!(!finished.stdout.contains("PartitionsRestored"), "{}", finished.stdout);
}

#[test]
fn a_master_that_is_killed_again_and_again_costs_no_update() {
    const KILLS: u32 = 3;
    let place = Place::new();
    let quickstart = Quickstart::default();
    let training = quickstart.start(&place, &[]);
    for nth in 1..=KILLS {
        training.reaches(quickstart.share(nth, KILLS + 1));
        training.kill("elasticjob-quickstart-dlrover-master");
    }
    quickstart.assert_same_updates(&training.finish(), &quickstart.finish(&Place::new()));
}

#[test]
fn one_server_has_no_place_for_a_second_copy_which_is_told() {
    let place = Place::new();
    let quickstart = Quickstart { servers: 1, copies: 2, ..Quickstart::default() };
    let training = quickstart.start(&place, &[]);
    training.reaches(quickstart.share(1, 10));
    assert_eq!(training.status()["servers"]["redundant"], false);
    let told = "NoServerForBackup";
    assert!(training.stdout().contains(told), "{}", training.stdout());
    let described = place.says(&["describe", "elasticjob", "quickstart"]);
    let line = described.lines().find(|line| line.contains(told)).unwrap_or_else(|| panic!("{described}"));
    assert!(
        line.contains("Warning")
            && line.contains("ps is to have 1 replica: one server has no place for the second copy"),
        "{line}"
    );

    place.says(&["scale", "quickstart", "--ps", "2"]);
    training.no_further_than(quickstart.share(5, 10), "two copies", is_settled);
    place.says(&["scale", "quickstart", "--ps", "1"]);
    training.no_further_than(quickstart.share(8, 10), "a server to go", |_| {
        training.stdout().matches(told).count() == 2 && !runs(&place, "ps-1")
    });
    quickstart.assert_same_updates(&training.finish(), &quickstart.finish(&Place::new()));
}
