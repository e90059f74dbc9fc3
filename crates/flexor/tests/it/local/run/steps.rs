//! Synchronous training and checkpoints: the model is the same to the last bit, whoever computes it, whatever is lost.

use std::cell::Cell;
use std::fs;

use super::cluster::Place;
use super::quickstart::Quickstart;
use super::quickstart::training::{Training, accounted, latest_checkpoint};
use crate::local::faults::process::server;

/// 40,050 records in batches of 100, four of which make a step: the last one is short, and its last batch too.
pub fn job(servers: u32, workers: u32) -> Quickstart<'static> {
    Quickstart {
        records: 40_050,
        batch: 100,
        servers,
        workers,
        checkpoints: Some("{ folder: kept, everySeconds: 1, keep: 2 }"),
        words: r#", --grads-to-wait=4, "--optimizer=sgd:learning_rate=0.1""#,
        ..Quickstart::default()
    }
}

/// Trains to the end; what was learnt, as it is written for serving.
pub fn trained(place: &Place, servers: u32, workers: u32) -> Vec<u8> {
    assert_all_accounted(job(servers, workers).start(place, &[]));
    model(place)
}

fn assert_all_accounted(training: Training<'_>) {
    let ended = training.ends_with(0);
    for told in
        ["40050 expected, 40050 accounted for", " applied, each of one synchronous step, ", " 0 applied twice, "]
    {
        assert!(ended.stdout.contains(told), "{told:?} is not in {}", ended.stdout);
    }
}

/// The values of the last checkpoint, without what the file says of where they come from.
pub fn model(place: &Place) -> Vec<u8> {
    let mut export = server(&["checkpoint", "export", "kept", "model.safetensors"]);
    let exported = export.current_dir(place.folder.path()).output().unwrap();
    assert!(exported.status.success(), "{exported:?}");
    let bytes = fs::read(place.folder.path().join("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + header..].to_vec()
}

/// Trains until there is a checkpoint, and a little further. The number of a checkpoint.
pub fn half_way(place: &Place) -> (Training<'_>, u64) {
    let job = job(2, 2);
    let training = job.start(place, &[]);
    training.no_further_than(job.share(1, 3), "a checkpoint", |status| latest_checkpoint(status) > 0);
    let number = latest_checkpoint(&training.status());
    training.reaches(job.share(1, 2));
    (training, number)
}

#[test]
fn any_number_of_servers_and_workers_learns_the_same_to_the_last_bit() {
    let alone = trained(&Place::new(), 1, 1);
    assert!(trained(&Place::new(), 3, 2) == alone, "with three servers and two workers");

    // One copy of everything is lost with a server: all go back to the checkpoint, and the data with them.
    let place = Place::new();
    let (training, _) = half_way(&place);
    training.kill("quickstart-edljob-ps-1");
    assert_all_accounted(training);
    assert!(model(&place) == alone, "with a server that was lost");
}

#[test]
fn a_server_that_is_lost_after_the_last_batch_takes_everybody_back() {
    let alone = trained(&Place::new(), 2, 2);
    let place = Place::new();
    let job = job(2, 2);
    let all = u64::from(job.records);
    let training = job.start(&place, &[]);
    let is_killed = Cell::new(false);
    // The workers are about to have the model saved, and to measure it.
    training.no_further_than(all, "a return to a checkpoint", |status| {
        if accounted(status) >= all && !is_killed.replace(true) {
            training.kill("quickstart-edljob-ps-1");
        }
        status["servers"]["restorations"].as_u64() > Some(0)
    });
    assert_all_accounted(training);
    assert!(model(&place) == alone);
}

#[test]
fn a_run_that_was_interrupted_goes_on_with_any_number_of_servers_as_if_it_had_not_been() {
    let alone = trained(&Place::new(), 2, 1);
    for servers in [1, 2, 3, 5] {
        let place = Place::new();
        half_way(&place).0.interrupt();
        assert!(trained(&place, servers, 1) == alone, "on {servers} servers");
    }
}
