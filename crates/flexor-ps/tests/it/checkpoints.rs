//! Checkpoints while clients push: what is written, what a lost server leaves behind, and going on elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use flexor_ps::checkpoint::{Checkpoint, Folder, latest};
use flexor_ps::client::{ClientError, PullFor};

use crate::cluster::{Cluster, counting};
use crate::exactly_once::{KEYS, Pushing, TABLE};

/// The value of every key, which is how many pushes it has seen.
async fn counts(cluster: &Cluster) -> Vec<u64> {
    let mut client = cluster.client().await;
    let keys: Vec<u64> = (0..KEYS).collect();
    let mut out = Vec::new();
    client.pull(&[(TABLE, &keys)], PullFor::Looking, &mut out).await.unwrap();
    out[0].chunks(4).map(|row| row[0] as u64).collect()
}

/// The files of the latest checkpoint.
fn files_of(folder: &Path, number: u64) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(format!("checkpoint-{number:012}"))).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_server_begins_again_with_the_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::saving(1, folder.path());
    cluster.add("ps-0");
    cluster.add("ps-1");
    cluster.want(2, &[]);
    let pushing = Pushing::start(&cluster, 2).await;
    pushing.more(20).await;
    let written = pushing.pushed.load(Ordering::Relaxed);
    cluster.saved().await;
    let before = pushing.pushed.load(Ordering::Relaxed);
    cluster.kill("ps-1");
    cluster.add("ps-1");
    cluster.settled().await;
    pushing.more(20).await;
    let pushed = pushing.end().await;
    let counts = counts(&cluster).await;
    assert!(counts.iter().all(|count| *count <= pushed), "nothing counts twice");
    assert!(counts.contains(&pushed), "what was on the other server is all there");
    let least = *counts.iter().min().unwrap();
    assert!(least >= written + (pushed - before) - 4, "{least} of {pushed}: {written} were written, {before} lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_goes_on_elsewhere_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Cluster::saving(1, folder.path());
    (0..3).for_each(|number| first.add(&format!("ps-{number}")));
    first.want(3, &[]);
    let pushing = Pushing::start(&first, 2).await;
    pushing.more(20).await;
    let pushed = pushing.end().await;
    first.saved().await;
    first.end().await;
    for servers in [1, 2, 5] {
        let mut next = Cluster::saving(1, folder.path());
        (0..servers).for_each(|number| next.add(&format!("ps-{number}")));
        next.want(servers, &[]);
        assert_eq!(counts(&next).await, vec![pushed; KEYS as usize], "with {servers} servers");
        next.saved().await;
        next.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_checkpoint_is_not_loaded_and_one_of_another_model_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::saving(1, folder.path());
    cluster.add("ps-0");
    cluster.want(1, &[]);
    let pushing = Pushing::start(&cluster, 1).await;
    pushing.more(5).await;
    let pushed = pushing.end().await;
    cluster.saved().await;
    cluster.end().await;
    let whole = latest(&Folder::new(folder.path())).unwrap().unwrap();
    let tables =
        files_of(folder.path(), whole.0).into_iter().find(|path| path.extension().is_some_and(|it| it == "flx"));
    let tables = tables.unwrap();
    let mut bytes = fs::read(&tables).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&tables, bytes).unwrap();
    let damaged = Checkpoint::open(&Folder::new(folder.path()), whole).unwrap().verify().unwrap_err().to_string();
    assert!(damaged.contains("tables-ps-0.flx") && damaged.contains("damaged at byte"), "{damaged}");

    // The one before it is as good as it was, and nobody loads the other.
    let mut next = Cluster::saving(1, folder.path());
    next.add("ps-0");
    next.want(1, &[]);
    let mut other = counting();
    other.tables[0].dim = 8;
    match next.client_of(other).await.err() {
        Some(ClientError::Declined(why)) => assert!(why.contains("another model"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(counts(&next).await, vec![pushed; KEYS as usize]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_checkpoint_can_be_read_the_job_is_refused_and_nothing_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::saving(1, folder.path());
    cluster.add("ps-0");
    cluster.want(1, &[]);
    let pushing = Pushing::start(&cluster, 1).await;
    cluster.saved().await;
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
    let mut next = Cluster::saving(1, folder.path());
    next.add("ps-0");
    next.want(1, &[]);
    match next.client_of(counting()).await.err() {
        Some(ClientError::Declined(why)) => assert!(why.contains("none can be read"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(damaged.iter().all(|path| path.exists()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_cannot_be_looked_into_is_refused_before_anything_is_trained() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("kept");
    fs::write(&file, "in the way").unwrap();
    let mut cluster = Cluster::saving(1, &file);
    cluster.add("ps-0");
    cluster.want(1, &[]);
    match cluster.client_of(counting()).await.err() {
        Some(ClientError::Declined(why)) => {
            assert!(why.contains("CheckpointFailed") && why.contains("name a folder"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_cannot_be_written_stops_nothing_and_the_reason_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (place, aside) = (folder.path().join("checkpoints"), folder.path().join("aside"));
    let mut cluster = Cluster::saving(1, &place);
    cluster.add("ps-0");
    cluster.want(1, &[]);
    let pushing = Pushing::start(&cluster, 1).await;
    cluster.saved().await;
    // A file where the folder should be: what a full disk answers comes the same way.
    fs::rename(&place, &aside).unwrap();
    fs::write(&place, "in the way").unwrap();
    let failed = |status: &flexor_master::servers::ServersStatus| {
        status.checkpoints.as_ref().is_some_and(|one| one.failure.is_some())
    };
    cluster.until("a failure", failed).await;
    pushing.more(5).await;
    let why = cluster.status().checkpoints.unwrap().failure.unwrap();
    assert!(why.contains("cannot "), "{why}");
    fs::remove_file(&place).unwrap();
    fs::rename(&aside, &place).unwrap();
    cluster.saved().await;
    assert_eq!(cluster.status().checkpoints.unwrap().failure, None);
    pushing.end().await;
}
