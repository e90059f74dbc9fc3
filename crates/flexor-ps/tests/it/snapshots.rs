//! The model as it was at one moment, read while it is trained: nothing of what is learnt since is in it.

use std::time::{Duration, Instant};

use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, Gradients, PullFor, SnapshotError, Versions};
use flexor_ps::layout::TableId;
use flexor_ps::push::NonFinite;

use crate::cluster::Cluster;

const TABLE: TableId = TableId(0);
/// Enough that every partition has some.
const ROWS: u64 = 2000;
const PLENTY: u64 = 64 << 20;

/// Adds 1 to rows and to every element of the dense variable.
async fn learn(client: &mut Client, first: u64, keys: &[u64], versions: &Versions) {
    let (rows, variable) = (vec![-1.0; keys.len() * 4], vec![-1.0; 70_000]);
    let push = Gradients {
        batch: BatchId { dataset: 0, epoch: 0, first, len: 1 },
        learning_rate: 0.0,
        in_step: None,
        non_finite: NonFinite::Refuse,
        rows: &[(TABLE, keys, &rows)],
        variables: &[(0, &variable)],
    };
    client.push_since(&push, versions).await.unwrap();
}

fn keys() -> Vec<u64> {
    (0..ROWS).collect()
}

fn all_are(values: &[f32], wanted: f32) -> bool {
    values.iter().all(|value| *value == wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_learnt_since_is_not_in_it() {
    let mut cluster = Cluster::start(2);
    ["ps-0", "ps-1"].iter().for_each(|name| cluster.add(name));
    cluster.want(2, &[]);
    let (mut trains, mut looks) = (cluster.client().await, cluster.client().await);
    cluster.settled().await;
    learn(&mut trains, 0, &keys(), &Versions::default()).await;

    let (mut rows, nobody_has) = (Vec::new(), [ROWS + 7]);
    let mut snapshot = looks.snapshot(PLENTY).await.unwrap();
    for first in 1..4 {
        learn(&mut trains, first, &keys(), &Versions::default()).await;
        learn(&mut trains, 100 + first, &nobody_has, &Versions::default()).await;
        snapshot.pull(&[(TABLE, &keys()), (TABLE, &nobody_has)], &mut rows).await.unwrap();
        assert!(all_are(&rows[0], 1.0), "after update {first}");
        assert!(all_are(&rows[1], 0.0), "a row that was not there has its initial values");
        assert!(all_are(&snapshot.variables()[0], 1.0), "after update {first}");
    }
    drop(snapshot);

    let mut snapshot = looks.snapshot(PLENTY).await.unwrap();
    snapshot.pull(&[(TABLE, &keys())], &mut rows).await.unwrap();
    assert!(all_are(&rows[0], 4.0) && all_are(&snapshot.variables()[0], 7.0), "the next one has all of it");
    drop(snapshot);
    looks.pull(&[(TABLE, &keys())], PullFor::Looking, &mut rows).await.unwrap();
    assert!(all_are(&rows[0], 4.0) && all_are(&looks.variable(0), 7.0), "and so has the model itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_without_room_for_what_changes_is_lost_and_says_so() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    cluster.want(1, &[]);
    let (mut trains, mut looks) = (cluster.client().await, cluster.client().await);
    cluster.settled().await;
    learn(&mut trains, 0, &keys(), &Versions::default()).await;

    let mut rows = Vec::new();
    let mut snapshot = looks.snapshot(1000).await.unwrap();
    snapshot.pull(&[(TABLE, &keys())], &mut rows).await.unwrap();
    learn(&mut trains, 1, &keys(), &Versions::default()).await;
    let lost = snapshot.pull(&[(TABLE, &keys())], &mut rows).await.unwrap_err();
    assert!(matches!(&lost, SnapshotError::Overrun(_)) && lost.to_string().contains("1000 bytes"), "{lost}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_server_is_gone_is_lost_and_a_new_one_can_be_taken() {
    let mut cluster = Cluster::start(2);
    ["ps-0", "ps-1"].iter().for_each(|name| cluster.add(name));
    cluster.want(2, &[]);
    let (mut trains, mut looks) = (cluster.client().await, cluster.client().await);
    cluster.settled().await;
    learn(&mut trains, 0, &keys(), &Versions::default()).await;

    let mut rows = Vec::new();
    let mut snapshot = looks.snapshot(PLENTY).await.unwrap();
    cluster.kill("ps-1");
    cluster.add("ps-1");
    cluster.want(2, &[]);
    cluster.settled().await;
    let lost = snapshot.pull(&[(TABLE, &keys())], &mut rows).await.unwrap_err();
    assert!(matches!(lost, SnapshotError::Moved(_)), "{lost}");
    drop(snapshot);

    // Partitions may still be on their way back to the one that has come.
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let read = match looks.snapshot(PLENTY).await {
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

/// Both servers that keep a partition take a step of the same size.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_others_have_overtaken_is_the_smaller_the_more_they_were() {
    let mut cluster = Cluster::start(2);
    ["ps-0", "ps-1"].iter().for_each(|name| cluster.add(name));
    cluster.want(2, &[]);
    let (mut slow, mut fast) = (cluster.client().await, cluster.client().await);
    cluster.settled().await;
    let mut rows = Vec::new();
    slow.pull(&[(TABLE, &keys())], PullFor::TrainingByVersion, &mut rows).await.unwrap();
    let versions = slow.versions().clone();
    for first in 0..4 {
        learn(&mut fast, first, &keys(), &Versions::default()).await;
    }
    learn(&mut slow, 4, &keys(), &versions).await;
    let quarter = 4.0 + 0.25;
    fast.pull(&[(TABLE, &keys())], PullFor::Looking, &mut rows).await.unwrap();
    assert!(all_are(&rows[0], quarter) && all_are(&fast.variable(0), quarter));

    // One that is up to date counts whole, and the copies have seen the same.
    slow.pull(&[(TABLE, &keys())], PullFor::TrainingByVersion, &mut rows).await.unwrap();
    let versions = slow.versions().clone();
    learn(&mut slow, 5, &keys(), &versions).await;
    cluster.kill("ps-0");
    fast.pull(&[(TABLE, &keys())], PullFor::Looking, &mut rows).await.unwrap();
    assert!(all_are(&rows[0], quarter + 1.0) && all_are(&fast.variable(0), quarter + 1.0));
}
