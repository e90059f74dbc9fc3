//! Snapshots of a model during training: later updates are not visible.

use std::time::{Duration, Instant};

use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, Gradients, PullFor, SnapshotError, Versions};
use flexor_ps::layout::TableId;
use flexor_ps::push::NonFinite;

use crate::cluster::Cluster;

const TABLE: TableId = TableId(0);
/// Enough for at least one row in every partition.
const ROWS: u64 = 2000;
const LARGE_BUDGET: u64 = 64 << 20;

/// Adds 1 to rows and to every element of the dense variable.
async fn train(client: &mut Client, first: u64, keys: &[u64], versions: &Versions) {
    let (rows, variable) = (vec![-1.0; keys.len() * 4], vec![-1.0; 70_000]);
    let push = Gradients {
        batch: BatchId { dataset: 0, epoch: 0, first, len: 1 },
        learning_rate: 0.0,
        rewind_epoch: None,
        non_finite: NonFinite::Refuse,
        rows: &[(TABLE, keys, &rows)],
        variables: &[(0, &variable)],
    };
    client.push_based_on(&push, versions).await.unwrap();
}

fn keys() -> Vec<u64> {
    (0..ROWS).collect()
}

fn all_are(values: &[f32], wanted: f32) -> bool {
    values.iter().all(|value| *value == wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_after_a_snapshot_are_not_visible_in_it() {
    let mut cluster = Cluster::start(2);
    ["ps-0", "ps-1"].iter().for_each(|name| cluster.add(name));
    cluster.report_desired(2, &[]);
    let (mut trainer, mut reader) = (cluster.client().await, cluster.client().await);
    cluster.wait_settled().await;
    train(&mut trainer, 0, &keys(), &Versions::default()).await;

    let (mut rows, new_key) = (Vec::new(), [ROWS + 7]);
    let mut snapshot = reader.snapshot(LARGE_BUDGET).await.unwrap();
    for first in 1..4 {
        train(&mut trainer, first, &keys(), &Versions::default()).await;
        train(&mut trainer, 100 + first, &new_key, &Versions::default()).await;
        snapshot.pull(&[(TABLE, &keys()), (TABLE, &new_key)], &mut rows).await.unwrap();
        assert!(all_are(&rows[0], 1.0), "after update {first}");
        assert!(all_are(&rows[1], 0.0), "a row that did not exist has its initial values");
        assert!(all_are(&snapshot.variables()[0], 1.0), "after update {first}");
    }
    drop(snapshot);

    let mut snapshot = reader.snapshot(LARGE_BUDGET).await.unwrap();
    snapshot.pull(&[(TABLE, &keys())], &mut rows).await.unwrap();
    assert!(all_are(&rows[0], 4.0) && all_are(&snapshot.variables()[0], 7.0), "a new snapshot has all updates");
    drop(snapshot);
    reader.pull(&[(TABLE, &keys())], PullFor::Evaluation, &mut rows).await.unwrap();
    assert!(all_are(&rows[0], 4.0) && all_are(&reader.variable(0), 7.0), "the model itself has all updates");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_over_its_budget_is_lost_with_the_reason() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    cluster.report_desired(1, &[]);
    let (mut trainer, mut reader) = (cluster.client().await, cluster.client().await);
    cluster.wait_settled().await;
    train(&mut trainer, 0, &keys(), &Versions::default()).await;

    let mut rows = Vec::new();
    let mut snapshot = reader.snapshot(1000).await.unwrap();
    snapshot.pull(&[(TABLE, &keys())], &mut rows).await.unwrap();
    train(&mut trainer, 1, &keys(), &Versions::default()).await;
    let lost = snapshot.pull(&[(TABLE, &keys())], &mut rows).await.unwrap_err();
    assert!(matches!(&lost, SnapshotError::Overrun(_)) && lost.to_string().contains("1000 bytes"), "{lost}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_lost_with_its_server_and_a_new_one_can_be_opened() {
    let mut cluster = Cluster::start(2);
    ["ps-0", "ps-1"].iter().for_each(|name| cluster.add(name));
    cluster.report_desired(2, &[]);
    let (mut trainer, mut reader) = (cluster.client().await, cluster.client().await);
    cluster.wait_settled().await;
    train(&mut trainer, 0, &keys(), &Versions::default()).await;

    let mut rows = Vec::new();
    let mut snapshot = reader.snapshot(LARGE_BUDGET).await.unwrap();
    cluster.kill("ps-1");
    cluster.add("ps-1");
    cluster.report_desired(2, &[]);
    cluster.wait_settled().await;
    let lost = snapshot.pull(&[(TABLE, &keys())], &mut rows).await.unwrap_err();
    assert!(matches!(lost, SnapshotError::Moved(_)), "{lost}");
    drop(snapshot);

    // Partitions may still be moving to the restarted server.
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let read = match reader.snapshot(LARGE_BUDGET).await {
            Ok(mut snapshot) => snapshot.pull(&[(TABLE, &keys())], &mut rows).await,
            Err(error) => Err(error),
        };
        match read {
            Ok(()) => break,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
    assert!(all_are(&rows[0], 1.0));
}

/// Primary and backup apply the same learning rate.
#[tokio::test(flavor = "multi_thread")]
async fn staleness_divides_the_learning_rate_on_all_replicas() {
    let mut cluster = Cluster::start(2);
    ["ps-0", "ps-1"].iter().for_each(|name| cluster.add(name));
    cluster.report_desired(2, &[]);
    let (mut slow, mut fast) = (cluster.client().await, cluster.client().await);
    cluster.wait_settled().await;
    let mut rows = Vec::new();
    slow.pull(&[(TABLE, &keys())], PullFor::TrainingWithVersions, &mut rows).await.unwrap();
    let versions = slow.versions().clone();
    for first in 0..4 {
        train(&mut fast, first, &keys(), &Versions::default()).await;
    }
    train(&mut slow, 4, &keys(), &versions).await;
    let quarter = 4.0 + 0.25;
    fast.pull(&[(TABLE, &keys())], PullFor::Evaluation, &mut rows).await.unwrap();
    assert!(all_are(&rows[0], quarter) && all_are(&fast.variable(0), quarter));

    // A current update has the full learning rate, and the backups have applied the same updates.
    slow.pull(&[(TABLE, &keys())], PullFor::TrainingWithVersions, &mut rows).await.unwrap();
    let versions = slow.versions().clone();
    train(&mut slow, 5, &keys(), &versions).await;
    cluster.kill("ps-0");
    fast.pull(&[(TABLE, &keys())], PullFor::Evaluation, &mut rows).await.unwrap();
    assert!(all_are(&rows[0], quarter + 1.0) && all_are(&fast.variable(0), quarter + 1.0));
}
