//! Client timeouts: a client waits for a slow connection, but gives up on a step that is not committed.

use std::time::{Duration, Instant};

use flexor_client::Jitter;
use flexor_ps::client::{Client, ClientError, PullFor, PullOutcome, SnapshotError};
use flexor_ps::dial::{Dialer, Stream};
use flexor_ps::layout::TableId;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;

use crate::cluster::{Cluster, counting_model};

const KEYS: [u64; 3] = [1, 2, 3];

fn step(committed: u64) -> PullFor {
    PullFor::Step { committed, rewind_epoch: 0 }
}

async fn pull(client: &mut Client, why: PullFor) -> PullOutcome {
    let (wanted, mut rows) = ([(TableId(0), &KEYS[..])], Vec::new());
    let pulled = client.pull(&wanted, why, &mut rows);
    tokio::time::timeout(Duration::from_secs(60), pulled).await.expect("the pull returns").unwrap()
}

#[tokio::test]
async fn a_pull_of_a_step_that_is_not_committed_is_given_up() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    let mut client = cluster.client().await;
    assert_eq!(pull(&mut client, step(0)).await, PullOutcome::Complete);
    assert_eq!(pull(&mut client, step(1)).await, PullOutcome::StepVoid);
    assert_eq!(pull(&mut client, step(0)).await, PullOutcome::Complete, "other pulls still succeed");
}

/// A client retries for a while, because a server of another job may hold the address for a moment.
#[tokio::test]
async fn a_server_that_always_rejects_the_client_is_not_retried_forever() {
    let mut cluster = Cluster::start(1);
    cluster.add_with_token("ps-0", "the-job's");
    let mut client = cluster.client().await;
    match client.snapshot(1 << 20).await.err() {
        Some(SnapshotError::Client(ClientError::Refused(why))) => assert!(why.contains("the job's token"), "{why}"),
        other => panic!("{other:?}"),
    }
    let (wanted, mut rows) = ([(TableId(0), &KEYS[..])], Vec::new());
    let pulled = client.pull(&wanted, PullFor::Evaluation, &mut rows);
    match tokio::time::timeout(Duration::from_secs(60), pulled).await.expect("the pull returns") {
        Err(ClientError::Refused(why)) => {
            assert!(why.contains("the server at 127.0.0.1") && why.contains("the job's token"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

/// The model has 280 kB; the connection passes on 80 kB per second.
#[tokio::test]
async fn a_pull_over_a_slow_connection_completes() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    let master = cluster.master();
    let dialer = Dialer::new(Jitter::Random, move |to| {
        let (to, is_slow) = (to.to_owned(), to != master);
        Box::pin(async move {
            let there = TcpStream::connect(to).await?;
            if !is_slow {
                return Ok(Box::new(there) as Box<dyn Stream>);
            }
            let (here, end) = tokio::io::duplex(1 << 12);
            tokio::spawn(pass_slowly(there, end));
            Ok(Box::new(here) as Box<dyn Stream>)
        })
    });
    let mut client = Client::with_dialer(&cluster.master(), None, counting_model(), dialer).await.unwrap();
    let begun = Instant::now();
    assert_eq!(pull(&mut client, step(0)).await, PullOutcome::Complete);
    assert!(begun.elapsed() > Duration::from_secs(3), "longer than the timeout of a step: {:?}", begun.elapsed());
    assert_eq!(client.variable(0), vec![0.0; 70_000]);
}

/// Forwards bytes from the server at 80 kB per second, and bytes to the server at once.
async fn pass_slowly(there: TcpStream, here: DuplexStream) {
    let (mut from, mut to) = there.into_split();
    let (mut mine, mut client) = tokio::io::split(here);
    tokio::spawn(async move { tokio::io::copy(&mut mine, &mut to).await });
    let mut some = [0; 1 << 12];
    while let Ok(read @ 1..) = from.read(&mut some).await {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if client.write_all(&some[..read]).await.is_err() {
            return;
        }
    }
}
