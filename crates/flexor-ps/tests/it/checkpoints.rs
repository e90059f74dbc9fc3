//! Checkpoints while clients push: lost servers, restore by other servers, damaged files and failing storage.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use flexor_ps::checkpoint::{Checkpoint, DirectoryStorage, latest};
use flexor_ps::client::{ClientError, PullFor};

use crate::cluster::{Cluster, counting_model};
use crate::exactly_once::{KEYS, PushLoad, TABLE};

/// The value of every key: the number of pushes applied to it.
async fn counts(cluster: &Cluster) -> Vec<u64> {
    let mut client = cluster.client().await;
    let keys: Vec<u64> = (0..KEYS).collect();
    let mut out = Vec::new();
    client.pull(&[(TABLE, &keys)], PullFor::Evaluation, &mut out).await.unwrap();
    out[0].chunks(4).map(|row| row[0] as u64).collect()
}

/// The files of the latest checkpoint.
fn files_of(folder: &Path, number: u64) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(format!("checkpoint-{number:012}"))).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_server_is_restored_from_the_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::with_checkpoints(1, folder.path());
    cluster.add("ps-0");
    cluster.add("ps-1");
    cluster.report_desired(2, &[]);
    let pushing = PushLoad::start(&cluster, 2).await;
    pushing.more(20).await;
    let written = pushing.pushed.load(Ordering::Relaxed);
    cluster.next_checkpoint().await;
    let before = pushing.pushed.load(Ordering::Relaxed);
    cluster.kill("ps-1");
    cluster.add("ps-1");
    cluster.wait_settled().await;
    pushing.more(20).await;
    let pushed = pushing.end().await;
    let counts = counts(&cluster).await;
    assert!(counts.iter().all(|count| *count <= pushed), "no push is applied twice");
    assert!(counts.contains(&pushed), "the other server lost nothing");
    let least = *counts.iter().min().unwrap();
    assert!(least >= written + (pushed - before) - 4, "{least} of {pushed}: {written} were written, {before} lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_servers_continue_from_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Cluster::with_checkpoints(1, folder.path());
    (0..3).for_each(|number| first.add(&format!("ps-{number}")));
    first.report_desired(3, &[]);
    let pushing = PushLoad::start(&first, 2).await;
    pushing.more(20).await;
    let pushed = pushing.end().await;
    first.next_checkpoint().await;
    first.end().await;
    for servers in [1, 2, 5] {
        let mut next = Cluster::with_checkpoints(1, folder.path());
        (0..servers).for_each(|number| next.add(&format!("ps-{number}")));
        next.report_desired(servers, &[]);
        assert_eq!(counts(&next).await, vec![pushed; KEYS as usize], "with {servers} servers");
        next.next_checkpoint().await;
        next.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_checkpoint_is_not_restored_and_one_of_another_model_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::with_checkpoints(1, folder.path());
    cluster.add("ps-0");
    cluster.report_desired(1, &[]);
    let pushing = PushLoad::start(&cluster, 1).await;
    pushing.more(5).await;
    let pushed = pushing.end().await;
    cluster.next_checkpoint().await;
    cluster.end().await;
    let newest = latest(&DirectoryStorage::new(folder.path())).unwrap().unwrap();
    let tables =
        files_of(folder.path(), newest.0).into_iter().find(|path| path.extension().is_some_and(|it| it == "flx"));
    let tables = tables.unwrap();
    let mut bytes = fs::read(&tables).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&tables, bytes).unwrap();
    let damaged =
        Checkpoint::open(&DirectoryStorage::new(folder.path()), newest).unwrap().verify().unwrap_err().to_string();
    assert!(damaged.contains("tables-ps-0.flx") && damaged.contains("damaged at byte"), "{damaged}");

    // The checkpoint before it is restored instead.
    let mut next = Cluster::with_checkpoints(1, folder.path());
    next.add("ps-0");
    next.report_desired(1, &[]);
    let mut other = counting_model();
    other.tables[0].dim = 8;
    match next.client_of(other).await.err() {
        Some(ClientError::Declined(why)) => assert!(why.contains("another model"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(counts(&next).await, vec![pushed; KEYS as usize]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_readable_checkpoint_the_job_is_rejected_and_nothing_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::with_checkpoints(1, folder.path());
    cluster.add("ps-0");
    cluster.report_desired(1, &[]);
    let pushing = PushLoad::start(&cluster, 1).await;
    cluster.next_checkpoint().await;
    pushing.end().await;
    cluster.end().await;
    let mut damaged = Vec::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        for file in fs::read_dir(entry.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            fs::write(&path, "cut").unwrap();
            damaged.push(path);
        }
    }
    let mut next = Cluster::with_checkpoints(1, folder.path());
    next.add("ps-0");
    next.report_desired(1, &[]);
    match next.client_of(counting_model()).await.err() {
        Some(ClientError::Declined(why)) => assert!(why.contains("none can be read"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(damaged.iter().all(|path| path.exists()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_directory_is_rejected_before_training() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kept");
    fs::write(&file, "in the way").unwrap();
    let mut cluster = Cluster::with_checkpoints(1, &file);
    cluster.add("ps-0");
    cluster.report_desired(1, &[]);
    match cluster.client_of(counting_model()).await.err() {
        Some(ClientError::Declined(why)) => {
            assert!(why.contains("CheckpointFailed") && why.contains("name a folder"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_write_does_not_stop_training_and_its_reason_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (storage, aside) = (folder.path().join("checkpoints"), folder.path().join("aside"));
    let mut cluster = Cluster::with_checkpoints(1, &storage);
    cluster.add("ps-0");
    cluster.report_desired(1, &[]);
    let pushing = PushLoad::start(&cluster, 1).await;
    cluster.next_checkpoint().await;
    // A file in place of the directory fails like a full disk.
    fs::rename(&storage, &aside).unwrap();
    fs::write(&storage, "in the way").unwrap();
    let failed = |status: &flexor_master::servers::ServersStatus| {
        status.checkpoints.as_ref().is_some_and(|one| one.failure.is_some())
    };
    cluster.wait_until("a failure", failed).await;
    pushing.more(5).await;
    let why = cluster.status().checkpoints.unwrap().failure.unwrap();
    assert!(why.contains("cannot "), "{why}");
    fs::remove_file(&storage).unwrap();
    fs::rename(&aside, &storage).unwrap();
    cluster.next_checkpoint().await;
    assert_eq!(cluster.status().checkpoints.unwrap().failure, None);
    pushing.end().await;
}
