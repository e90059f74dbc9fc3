//! Pulls and pushes of one client.

use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, ClientError, Gradients, PullFor, PushOutcome};
use flexor_ps::layout::TableId;
use flexor_ps::push::NonFinite;
use flexor_ps::server::{Server, ServerName, follow_master};
use flexor_ps::spec::Optimizer;
use flexor_wire::Token;

use crate::cluster::{Cluster, counting};

const TABLE: TableId = TableId(0);

fn batch(first: u64) -> BatchId {
    BatchId { dataset: 1, epoch: 0, first, len: 1 }
}

#[tokio::test]
async fn what_is_pushed_is_pulled() {
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
        in_step: None,
        non_finite: NonFinite::Refuse,
        rows: &rows,
        variables: &variables,
    };
    let outcome = client.push(&push(0)).await.unwrap();
    assert_eq!((outcome.taken_before, outcome.too_late), (0, 0));
    assert_eq!(
        client.push(&push(0)).await.unwrap(),
        PushOutcome { taken: 0, taken_before: outcome.taken, too_late: 0 }
    );
    client.push(&push(1)).await.unwrap();
    let mut out = Vec::new();
    client.pull(&[(TABLE, &keys)], PullFor::Training, &mut out).await.unwrap();
    assert_eq!(out[0], vec![2.0; keys.len() * 4]);
    assert_eq!(client.variable(0), vec![1.0; 70_000]);
    cluster.until("both servers with work", |status| status.servers.iter().all(|server| server.partitions > 0)).await;
}

#[tokio::test]
async fn another_model_is_refused_before_anything_is_trained() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    let _first = cluster.client().await;
    let mut other = counting();
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
        in_step: None,
        non_finite: NonFinite::Refuse,
        rows: &[(TABLE, &keys, &bad)],
        variables: &[],
    };
    let refused = client.push(&push).await.unwrap_err();
    assert!(refused.to_string().contains("not finite"), "{refused}");
    let mut out = Vec::new();
    client.pull(&[(TABLE, &keys)], PullFor::Looking, &mut out).await.unwrap();
    assert_eq!(out[0], [0.0; 8]);

    // By choice the row takes no step, and the other does.
    client.push(&Gradients { non_finite: NonFinite::LeaveOut, ..push }).await.unwrap();
    client.pull(&[(TABLE, &keys)], PullFor::Looking, &mut out).await.unwrap();
    assert_eq!(out[0], [-1.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0]);
    cluster.until("the count", |status| status.servers.iter().any(|server| server.load.left_out == Some(1))).await;
    // A partition of which nothing is left answers for its part all the same.
    let push = Gradients { batch: batch(1), rows: &[], variables: &[(0, &[f32::NAN; 70_000])], ..push };
    let pushed = client.push(&Gradients { non_finite: NonFinite::LeaveOut, ..push }).await.unwrap();
    assert_eq!((pushed.taken, client.variable(0).iter().all(|value| *value == 0.0)), (2, true));
}

#[tokio::test]
async fn who_has_another_token_is_told_so_and_ends() {
    let cluster = Cluster::guarded("the-job's");
    let other = || Some(Token::parse("another").unwrap());
    let refused = Client::connect(&cluster.master(), other(), counting()).await.err().unwrap();
    assert!(matches!(&refused, ClientError::Declined(why) if why.contains("FLEXOR_TOKEN_FILE")), "{refused}");

    let (server, reports) = Server::new(ServerName { name: "ps-0".to_owned(), incarnation: 1 }, other());
    let refused = follow_master(&server, &cluster.master(), "127.0.0.1:1", reports).await.unwrap_err();
    assert!(refused.to_string().contains("FLEXOR_TOKEN_FILE"), "{refused}");
}

#[tokio::test]
async fn a_dense_gradient_of_another_length_is_refused() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    let mut client = cluster.client().await;
    for (variable, elements) in [(0, 69_999), (0, 70_001), (1, 1)] {
        let gradient = vec![-1.0; elements];
        let push = Gradients {
            batch: batch(0),
            learning_rate: 0.0,
            in_step: None,
            non_finite: NonFinite::Refuse,
            rows: &[],
            variables: &[(variable, &gradient)],
        };
        let refused = client.push(&push).await.unwrap_err();
        assert!(matches!(&refused, ClientError::Refused(why) if why.contains("variable")), "{refused}");
    }
    client.pull(&[], PullFor::Looking, &mut Vec::new()).await.unwrap();
    assert_eq!(client.variable(0), vec![0.0; 70_000], "nothing was applied");
}
