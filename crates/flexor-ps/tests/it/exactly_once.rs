//! Every push is applied exactly once while servers are added, drained and killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, Gradients, PullFor};
use flexor_ps::layout::TableId;
use flexor_ps::push::NonFinite;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;

pub(crate) const TABLE: TableId = TableId(0);
pub(crate) const KEYS: u64 = 3000;

/// Clients that push one batch after the other until the load is stopped.
pub(crate) struct PushLoad {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<u64>>,
    pub(crate) pushed: Arc<AtomicU64>,
}

impl PushLoad {
    pub(crate) async fn start(cluster: &Cluster, clients: u32) -> Self {
        let (stop, pushed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut running = Vec::new();
        for number in 0..clients {
            let (client, stop, pushed) = (cluster.client().await, stop.clone(), pushed.clone());
            running.push(tokio::spawn(push(client, number, stop, pushed)));
        }
        Self { stop, clients: running, pushed }
    }

    /// Waits until `pushes` more pushes were acknowledged.
    pub(crate) async fn more(&self, pushes: u64) {
        let until = self.pushed.load(Ordering::Relaxed) + pushes;
        let reached = async {
            while self.pushed.load(Ordering::Relaxed) < until {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reached).await.expect("clients go on");
    }

    /// Stops the clients. Returns the number of pushed batches.
    pub(crate) async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = 0;
        for client in self.clients {
            sum += client.await.unwrap();
        }
        sum
    }
}

async fn push(mut client: Client, number: u32, stop: Arc<AtomicBool>, pushed: Arc<AtomicU64>) -> u64 {
    let keys: Vec<u64> = (0..KEYS).collect();
    let gradients = vec![-1.0; keys.len() * 4];
    let dense = vec![-1.0; 70_000];
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let push = Gradients {
            batch: BatchId { dataset: number, epoch: 0, first: count, len: 1 },
            learning_rate: 0.0,
            rewind_epoch: None,
            non_finite: NonFinite::Refuse,
            rows: &[(TABLE, &keys, &gradients)],
            variables: &[(0, &dense)],
        };
        let outcome = client.push(&push).await.unwrap();
        assert_eq!(outcome.batch_closed, 0);
        count += 1;
        pushed.fetch_add(1, Ordering::Relaxed);
    }
    count
}

pub(crate) async fn assert_counted(cluster: &Cluster, pushes: u64) {
    let mut client = cluster.client().await;
    let keys: Vec<u64> = (0..KEYS).collect();
    let mut out = Vec::new();
    client.pull(&[(TABLE, &keys)], PullFor::Evaluation, &mut out).await.unwrap();
    let wrong: Vec<f32> = out[0].iter().copied().filter(|value| *value != pushes as f32).collect();
    assert!(wrong.is_empty(), "{} of {} values are not {pushes}: {:?} …", wrong.len(), out[0].len(), wrong.first());
    assert!(client.variable(0).iter().all(|value| *value == pushes as f32));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_added_removed_and_replaced_while_training_goes_on() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    cluster.report_desired(1, &[]);
    let pushing = PushLoad::start(&cluster, 2).await;
    pushing.more(20).await;
    cluster.add("ps-1");
    cluster.report_desired(2, &[]);
    cluster.wait_settled().await;
    cluster
        .wait_until("two with half each", |status| status.servers.iter().all(|server| server.partitions == 128))
        .await;
    pushing.more(20).await;
    cluster.add("ps-2");
    cluster.report_desired(2, &["ps-0"]);
    cluster
        .wait_until("nothing left on ps-0", |status| {
            status.servers.iter().any(|server| server.name == "ps-0" && server.partitions == 0) && status.settled
        })
        .await;
    cluster.kill("ps-0");
    cluster.report_desired(1, &["ps-1"]);
    cluster
        .wait_until("everything on ps-2", |status| {
            status.servers.iter().any(|server| server.name == "ps-2" && server.partitions == 256)
        })
        .await;
    pushing.more(20).await;
    let pushed = pushing.end().await;
    assert_counted(&cluster, pushed).await;
}

/// The controller has not announced that these servers leave, and partitions are still moving to them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_drained_right_after_their_start_lose_nothing() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    cluster.report_desired(1, &[]);
    let pushing = PushLoad::start(&cluster, 2).await;
    pushing.more(5).await;
    for _ in 0..4 {
        ["ps-1", "ps-2", "ps-3"].iter().for_each(|name| cluster.add(name));
        cluster.wait_until("something moves", |status| !status.settled).await;
        for name in ["ps-3", "ps-1", "ps-2"] {
            pushing.more(2).await;
            cluster.drain(name).await;
        }
    }
    cluster.wait_settled().await;
    let pushed = pushing.end().await;
    assert_counted(&cluster, pushed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_two_replicas_a_killed_server_loses_nothing() {
    let mut cluster = Cluster::start(2);
    cluster.add("ps-0");
    cluster.add("ps-1");
    cluster.report_desired(2, &[]);
    cluster.wait_settled().await;
    let pushing = PushLoad::start(&cluster, 2).await;
    for victim in ["ps-1", "ps-0", "ps-1"] {
        pushing.more(10).await;
        cluster.kill(victim);
        cluster.add(victim);
        cluster.wait_settled().await;
    }
    pushing.more(10).await;
    let pushed = pushing.end().await;
    assert_counted(&cluster, pushed).await;
}
