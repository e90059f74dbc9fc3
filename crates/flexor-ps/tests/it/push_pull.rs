//! Pushes and pulls of one client.

use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, ClientError, Gradients, PullFor, PushOutcome};
use flexor_ps::layout::TableId;
use flexor_ps::push::NonFinite;
use flexor_ps::server::{Server, ServerName, follow_master};
use flexor_ps::spec::Optimizer;
use flexor_wire::Token;

use crate::cluster::{Cluster, counting_model};

const TABLE: TableId = TableId(0);

fn batch(first: u64) -> BatchId {
    BatchId { dataset: 1, epoch: 0, first, len: 1 }
}

#[tokio::test]
async fn pulls_return_the_pushed_updates() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    cluster.add("ps-1");
    let mut client = cluster.client().await;
    let keys: Vec<u64> = (0..1000).collect();
    let gradients = vec![-1.0; keys.len() * 4];
    let dense = vec![-0.5; 70_000];
    let (rows, variables) = ([(TABLE, &*keys, &*gradients)], [(0, &*dense)]);
    let push = |first| Gradients {
        batch: batch(first),
        learning_rate: 0.0,
        rewind_epoch: None,
        non_finite: NonFinite::Refuse,
        rows: &rows,
        variables: &variables,
    };
    let outcome = client.push(&push(0)).await.unwrap();
    assert_eq!((outcome.already_applied, outcome.batch_closed), (0, 0));
    assert_eq!(
        client.push(&push(0)).await.unwrap(),
        PushOutcome { applied: 0, already_applied: outcome.applied, batch_closed: 0 }
    );
    client.push(&push(1)).await.unwrap();
    let mut out = Vec::new();
    client.pull(&[(TABLE, &keys)], PullFor::Training, &mut out).await.unwrap();
    assert_eq!(out[0], vec![2.0; keys.len() * 4]);
    assert_eq!(client.variable(0), vec![1.0; 70_000]);
    cluster
        .wait_until("partitions on both servers", |status| status.servers.iter().all(|server| server.partitions > 0))
        .await;
}

#[tokio::test]
async fn another_model_is_rejected_before_training() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    let _first = cluster.client().await;
    let mut other = counting_model();
    other.optimizer = Optimizer::sgd(0.5);
    let refused = cluster.client_of(other).await.err().unwrap();
    assert!(matches!(&refused, ClientError::Declined(why) if why.contains("ModelDiffers")), "{refused}");
}

#[tokio::test]
async fn a_gradient_that_is_not_finite_changes_nothing() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    let mut client = cluster.client().await;
    let keys = [1, 2];
    let bad = [1.0, 1.0, 1.0, 1.0, 1.0, f32::NAN, 1.0, 1.0];
    let push = Gradients {
        batch: batch(0),
        learning_rate: 0.0,
        rewind_epoch: None,
        non_finite: NonFinite::Refuse,
        rows: &[(TABLE, &keys, &bad)],
        variables: &[],
    };
    let refused = client.push(&push).await.unwrap_err();
    assert!(refused.to_string().contains("not finite"), "{refused}");
    let mut out = Vec::new();
    client.pull(&[(TABLE, &keys)], PullFor::Evaluation, &mut out).await.unwrap();
    assert_eq!(out[0], [0.0; 8]);

    // On request the row is skipped, and the other one is updated.
    client.push(&Gradients { non_finite: NonFinite::Skip, ..push }).await.unwrap();
    client.pull(&[(TABLE, &keys)], PullFor::Evaluation, &mut out).await.unwrap();
    assert_eq!(out[0], [-1.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0]);
    cluster.wait_until("the count", |status| status.servers.iter().any(|server| server.load.skipped == Some(1))).await;
    // A partition whose gradients are all skipped still acknowledges its part.
    let push = Gradients { batch: batch(1), rows: &[], variables: &[(0, &[f32::NAN; 70_000])], ..push };
    let pushed = client.push(&Gradients { non_finite: NonFinite::Skip, ..push }).await.unwrap();
    assert_eq!((pushed.applied, client.variable(0).iter().all(|value| *value == 0.0)), (2, true));
}

#[tokio::test]
async fn a_client_or_server_with_another_token_is_rejected() {
    let cluster = Cluster::with_token("the-job's");
    let other = || Some(Token::parse("another").unwrap());
    let refused = Client::connect(&cluster.master(), other(), counting_model()).await.err().unwrap();
    assert!(matches!(&refused, ClientError::Declined(why) if why.contains("FLEXOR_TOKEN_FILE")), "{refused}");

    let (server, reports) = Server::new(ServerName { name: "ps-0".to_owned(), incarnation: 1 }, other());
    let refused = follow_master(&server, &cluster.master(), "127.0.0.1:1", reports).await.unwrap_err();
    assert!(refused.to_string().contains("FLEXOR_TOKEN_FILE"), "{refused}");
}

#[tokio::test]
async fn a_dense_gradient_of_another_length_is_rejected() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    let mut client = cluster.client().await;
    for (variable, elements) in [(0, 69_999), (0, 70_001), (1, 1)] {
        let gradient = vec![-1.0; elements];
        let push = Gradients {
            batch: batch(0),
            learning_rate: 0.0,
            rewind_epoch: None,
            non_finite: NonFinite::Refuse,
            rows: &[],
            variables: &[(variable, &gradient)],
        };
        let refused = client.push(&push).await.unwrap_err();
        assert!(matches!(&refused, ClientError::Refused(why) if why.contains("variable")), "{refused}");
    }
    client.pull(&[], PullFor::Evaluation, &mut Vec::new()).await.unwrap();
    assert_eq!(client.variable(0), vec![0.0; 70_000], "nothing was applied");
}
