//! Tests synchronous training and checkpoints: the model is identical to the last bit for any set of workers and any
//! loss.

use std::cell::Cell;
use std::fs;

use super::cluster::Workspace;
use super::quickstart::Quickstart;
use super::quickstart::running_job::{Training, accounted, latest_checkpoint};
use crate::local::faults::process::server;

/// 40,050 records in batches of 100, four of which make a step: the last step is short, and so is its last batch.
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

/// Trains to the end; returns the model as exported for serving.
pub fn trained(workspace: &Workspace, servers: u32, workers: u32) -> Vec<u8> {
    assert_all_accounted(job(servers, workers).start(workspace, &[]));
    model(workspace)
}

fn assert_all_accounted(training: Training<'_>) {
    let ended = training.ends_with(0);
    for message in
        ["40050 expected, 40050 accounted for", " in the model, each of a whole step, ", " 0 applied twice, "]
    {
        assert!(ended.stdout.contains(message), "{message:?} is not in {}", ended.stdout);
    }
}

/// The values of the last checkpoint, without the metadata about their origin.
pub fn model(workspace: &Workspace) -> Vec<u8> {
    let mut export = server(&["checkpoint", "export", "kept", "model.safetensors"]);
    let exported = export.current_dir(workspace.folder.path()).output().unwrap();
    assert!(exported.status.success(), "{exported:?}");
    let bytes = fs::read(workspace.folder.path().join("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + header..].to_vec()
}

/// Trains until there is a checkpoint, and a little further. The number of a checkpoint.
pub fn half_way(workspace: &Workspace) -> (Training<'_>, u64) {
    let job = job(2, 2);
    let training = job.start(workspace, &[]);
    training.no_further_than(job.share(1, 3), "a checkpoint", |status| latest_checkpoint(status) > 0);
    let number = latest_checkpoint(&training.status());
    training.reaches(job.share(1, 2));
    (training, number)
}

#[test]
fn any_number_of_servers_and_workers_learns_the_same_to_the_last_bit() {
    let alone = trained(&Workspace::new(), 1, 1);
    assert!(trained(&Workspace::new(), 3, 2) == alone, "with three servers and two workers");

    // The replication factor is one, so a server's parameters are lost with it: all workers roll back to the
    // checkpoint, and the data with them.
    let workspace = Workspace::new();
    let (training, _) = half_way(&workspace);
    training.kill("quickstart-edljob-ps-1");
    assert_all_accounted(training);
    assert!(model(&workspace) == alone, "with a server that was lost");
}

#[test]
fn a_server_lost_after_the_last_batch_rolls_all_workers_back() {
    let alone = trained(&Workspace::new(), 2, 2);
    let workspace = Workspace::new();
    let job = job(2, 2);
    let all = u64::from(job.records);
    let training = job.start(&workspace, &[]);
    let is_killed = Cell::new(false);
    // The workers are about to have the model saved, and to measure it.
    training.no_further_than(all, "a return to a checkpoint", |status| {
        if accounted(status) >= all && !is_killed.replace(true) {
            training.kill("quickstart-edljob-ps-1");
        }
        status["servers"]["restorations"].as_u64() > Some(0)
    });
    assert_all_accounted(training);
    assert!(model(&workspace) == alone);
}

#[test]
fn an_interrupted_run_resumes_with_any_number_of_servers_to_the_same_model() {
    let alone = trained(&Workspace::new(), 2, 1);
    for servers in [1, 2, 3, 5] {
        let workspace = Workspace::new();
        half_way(&workspace).0.interrupt();
        assert!(trained(&workspace, servers, 1) == alone, "on {servers} servers");
    }
}
