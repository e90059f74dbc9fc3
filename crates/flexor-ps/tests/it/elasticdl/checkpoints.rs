//! Checkpoints of ElasticDL-compatible servers: retention, restore by any number of servers, incomplete checkpoints.

use std::fs;
use std::path::Path;

use flexor_ps::elasticdl::{LoadError, LoadedCheckpoint, ModelShare};
use flexor_ps::spec::Optimizer;
use prost::Message;

use super::job::{Job, options};

fn folders(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn all_checkpoints_are_kept_unless_a_limit_is_set() {
    for (keep, wanted) in [(0, vec!["version-2", "version-4", "version-6"]), (2, vec!["version-4", "version-6"])] {
        let dir = tempfile::tempdir().unwrap();
        let mut job = Job::start(2, Optimizer::adam(0.01), Some((dir.path(), 2, keep))).await;
        for _ in 0..6 {
            job.train(1).await;
        }
        assert_eq!(folders(dir.path()), wanted);
        for version in wanted {
            assert_eq!(folders(&dir.path().join(version)), ["ps-0-of-2", "ps-1-of-2"]);
        }
    }
}

#[tokio::test]
async fn restored_servers_continue_exactly() {
    let optimizers = [
        Optimizer::sgd(0.1),
        Optimizer::Sgd { learning_rate: 0.1, momentum: 0.9, nesterov: false },
        Optimizer::adagrad(0.1),
        Optimizer::adam(0.01),
    ];
    for optimizer in optimizers {
        let dir = tempfile::tempdir().unwrap();
        let mut job = Job::start(2, optimizer, Some((dir.path(), 5, 0))).await;
        job.train(5).await;
        let held = job.values().await;
        job.train(4).await;
        let wanted = job.values().await;
        let mut restored = Job::restore(2, optimizer, &dir.path().join("version-5"), 5).await;
        assert_eq!(restored.values().await, held);
        restored.train(4).await;
        assert_eq!(restored.values().await, wanted, "{optimizer:?}");
    }
}

#[tokio::test]
async fn any_number_of_servers_continues_from_any_other() {
    let optimizer = Optimizer::adam(0.01);
    let mut alone = Job::start(1, optimizer, None).await;
    alone.train(4).await;
    let held = alone.values().await;
    alone.train(3).await;
    let wanted = alone.values().await;
    for before in [1, 2, 3, 5] {
        let dir = tempfile::tempdir().unwrap();
        Job::start(before, optimizer, Some((dir.path(), 4, 0))).await.train(4).await;
        for after in [1, 2, 3, 5] {
            let mut job = Job::restore(after, optimizer, dir.path(), 4).await;
            assert_eq!(job.values().await, held, "{before} to {after}");
            job.train(3).await;
            assert_eq!(job.values().await, wanted, "{before} to {after}");
        }
    }
}

#[tokio::test]
async fn an_incomplete_checkpoint_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let mut job = Job::start(2, Optimizer::adam(0.01), Some((dir.path(), 2, 0))).await;
    job.train(2).await;
    job.train(2).await;
    let version = |loaded: Result<LoadedCheckpoint, LoadError>| loaded.map(|loaded| loaded.version());
    let read = |path: &Path| version(LoadedCheckpoint::read(path, None, 0));
    assert_eq!(read(dir.path()).unwrap(), 4);
    // The state after a server was killed before it wrote its manifest.
    let part = dir.path().join("version-4/ps-1-of-2/checkpoint-000000000004");
    fs::remove_file(part.join("manifest.json")).unwrap();
    assert_eq!(read(dir.path()).unwrap(), 2);
    let named = read(&dir.path().join("version-4")).unwrap_err().to_string();
    assert!(named.contains("has 1 of the 2 parts"), "{named}");
    fs::remove_dir_all(dir.path().join("version-4/ps-1-of-2")).unwrap();
    assert_eq!(read(dir.path()).unwrap(), 2);
    // A flipped bit is located.
    let rows = dir.path().join("version-2/ps-0-of-2/checkpoint-000000000002/tables-0-of-2.flx");
    let mut bytes = fs::read(&rows).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&rows, bytes).unwrap();
    let damaged = read(dir.path()).unwrap_err().to_string();
    assert!(damaged.contains("tables-0-of-2.flx' is damaged at byte"), "{damaged}");
}

#[tokio::test]
async fn a_missing_checkpoint_or_another_optimizer_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let nothing = LoadedCheckpoint::read(dir.path(), None, 0).err().unwrap().to_string();
    assert!(nothing.contains("has no complete checkpoint"), "{nothing}");
    let absent = LoadedCheckpoint::read(&dir.path().join("nowhere"), None, 0).err().unwrap().to_string();
    assert!(absent.contains("cannot read"), "{absent}");
    Job::start(1, Optimizer::adam(0.01), Some((dir.path(), 1, 0))).await.train(1).await;
    let other = LoadedCheckpoint::read(dir.path(), Some(Optimizer::sgd(0.1)), 0).err().unwrap().to_string();
    assert_eq!(other, "the checkpoint was trained with Adam, and its state does not fit SGD; continue with Adam");
    // Its hyperparameters may change.
    assert!(LoadedCheckpoint::read(dir.path(), Some(Optimizer::adam(0.5)), 0).is_ok());
}

#[tokio::test]
async fn files_of_elasticdl_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let mut job = Job::start(2, Optimizer::sgd(0.1), None).await;
    job.train(5).await;
    let folder = dir.path().join("version-5");
    fs::create_dir(&folder).unwrap();
    for (number, model) in job.models().await.into_iter().enumerate() {
        fs::write(folder.join(format!("variables-{number}-of-2.ckpt")), model.encode_to_vec()).unwrap();
    }
    let wanted = job.values().await;
    job.train(2).await;
    let later = job.values().await;
    for count in [1, 2, 3] {
        // Named explicitly, or found as the latest.
        let from = if count == 1 { dir.path() } else { &folder };
        let mut restored = Job::restore(count, Optimizer::sgd(0.1), from, 5).await;
        assert_eq!(restored.values().await, wanted);
        // Plain gradient descent has no slots that the files could lack.
        restored.train(2).await;
        assert_eq!(restored.values().await, later);
    }
    // With another optimizer the slots start anew; the server does not fail.
    let mut adam = Job::restore(2, Optimizer::adam(0.1), &folder, 5).await;
    adam.train(1).await;
    assert!(LoadedCheckpoint::read(&folder, None, 0).err().unwrap().to_string().contains("--opt-type"));
    fs::remove_file(folder.join("variables-1-of-2.ckpt")).unwrap();
    let missing = LoadedCheckpoint::read(&folder, Some(Optimizer::sgd(0.1)), 0).err().unwrap().to_string();
    assert!(missing.contains("has 1 of the 2 parts"), "{missing}");
    fs::write(folder.join("variables-1-of-2.ckpt"), b"\xFF\xFF no model").unwrap();
    let no_model = LoadedCheckpoint::read(&folder, Some(Optimizer::sgd(0.1)), 0).err().unwrap().to_string();
    assert!(no_model.contains("variables-1-of-2.ckpt' is not a model file of ElasticDL"), "{no_model}");
}

#[tokio::test]
async fn a_server_without_rows_and_variables_continues_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut job = Job::start(1, Optimizer::adam(0.01), Some((dir.path(), 1, 0))).await;
    job.train(1).await;
    let loaded = LoadedCheckpoint::read(dir.path(), None, 0).unwrap();
    // This server of 1000 gets no variable and no row below 40.
    let share = ModelShare::Server { server: 999, servers: std::num::NonZeroU32::new(1000).unwrap() };
    let parameters = loaded.into_parameters(options(Optimizer::adam(0.01)), share).unwrap();
    assert_eq!((parameters.version(), parameters.load().rows), (1, 0));
    assert!(parameters.pull_dense(-1).unwrap().initialized);
}
