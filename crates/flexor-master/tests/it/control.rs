//! The service for the controller: the master feed and single calls.

use std::time::Duration;

use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_client::ControlClient;
use flexor_wire::master::v1::proposal::Kind;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::serving::{Node, Serving};

fn pods(names: &[&str], expected: Option<u32>) -> wire::Observed {
    let pod = |name: &&str| wire::Pod {
        name: (*name).to_owned(),
        uid: (*name).to_owned(),
        role: "worker".to_owned(),
        phase: "Running".to_owned(),
        ..wire::Pod::default()
    };
    wire::Observed { pods: names.iter().map(pod).collect(), expected, ..wire::Observed::default() }
}

#[tokio::test]
async fn the_expected_number_ends_the_last_call() {
    let serving = Serving::start(1, 8).await;
    let mut control = ControlClient::new(serving.channel().await);
    let mut nodes = [Node::connect(&serving, "a", 1).await, Node::connect(&serving, "b", 1).await];
    for node in &nodes {
        node.join().await;
    }
    control.set_expected(wire::SetExpectedRequest { nodes: Some(2) }).await.unwrap();
    assert_eq!(nodes[0].complete().await.size, 2);
    assert_eq!(nodes[1].complete().await.size, 2);
}

#[tokio::test]
async fn a_pod_that_leaves_the_feed_is_lost_at_once_and_the_controller_hears_of_the_meeting() {
    let serving = Serving::start(1, 2).await;
    let mut control = ControlClient::new(serving.channel().await);
    let (feed, receiver) = mpsc::channel(4);
    feed.send(pods(&["a", "b"], Some(2))).await.unwrap();
    let mut proposals = control.feed(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let mut nodes = [Node::connect(&serving, "a", 1).await, Node::connect(&serving, "b", 1).await];
    for node in &nodes {
        node.join().await;
    }
    for node in &mut nodes {
        node.complete().await;
    }
    feed.send(pods(&["b"], Some(2))).await.unwrap();
    let world = nodes[1].world(|world| !world.restart.is_empty()).await;
    assert!(world.restart.contains("PodGone"), "{}", world.restart);
    let mut was_complete = false;
    loop {
        let Some(Kind::Training(status)) = proposals.message().await.unwrap().unwrap().kind else {
            panic!("nothing else is proposed")
        };
        was_complete |= (status.round, status.nodes, status.meeting) == (Some(0), 2, false);
        if was_complete && status.meeting {
            break;
        }
    }
}

#[tokio::test]
async fn the_controller_gets_the_training_status() {
    let serving = Serving::start(1, 1).await;
    let mut control = ControlClient::new(serving.channel().await);
    let (_feed, receiver) = mpsc::channel(4);
    let mut proposals = control.feed(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let first = proposals.message().await.unwrap().unwrap().kind;
    assert_eq!(first, Some(Kind::Training(Box::default())), "there is no world yet");
    let mut node = Node::connect(&serving, "a", 1).await;
    node.join().await;
    node.complete().await;
    let values = [("step".to_owned(), 12.0)].into();
    node.say(wire::request::Op::Metrics(wire::Metrics { values, ..wire::Metrics::default() })).await;
    loop {
        let Some(Kind::Training(status)) = proposals.message().await.unwrap().unwrap().kind else { continue };
        if status.step.is_some() {
            assert_eq!((status.step, status.nodes, status.records), (Some(12.0), 1, None));
            return;
        }
    }
}

/// A worker ends when its last report is answered, and the job with it; so the report must have arrived by then.
#[tokio::test]
async fn an_urgent_report_is_answered_when_the_controller_has_received_it() {
    let serving = Serving::start(1, 1).await;
    let mut control = ControlClient::new(serving.channel().await);
    let (feed, receiver) = mpsc::channel(4);
    let mut proposals = control.feed(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    assert_eq!(proposals.message().await.unwrap().unwrap().reports, 0);
    let mut node = Node::connect(&serving, "a", 1).await;
    let values = [("test_auc".to_owned(), 0.75)].into();
    node.say(wire::request::Op::Metrics(wire::Metrics { values, at_once: true, ..wire::Metrics::default() })).await;
    let reports = loop {
        let proposal = proposals.message().await.unwrap().unwrap();
        if proposal.reports > 0 {
            let Some(Kind::Training(status)) = proposal.kind else { panic!("{proposal:?}") };
            assert_eq!(status.learning.unwrap().test_auc, Some(0.75));
            break proposal.reports;
        }
    };
    let early = tokio::time::timeout(Duration::from_millis(300), node.answer()).await;
    assert!(early.is_err(), "answered before the controller had it: {early:?}");
    feed.send(wire::Observed { received_reports: reports, ..wire::Observed::default() }).await.unwrap();
    assert!(matches!(node.answer().await, wire::reply::Result::Done(_)));
}

/// The last evaluation may end after the last report of the worker.
#[tokio::test]
async fn an_evaluation_is_answered_when_the_controller_has_received_it() {
    let serving = Serving::start(1, 1).await;
    let mut control = ControlClient::new(serving.channel().await);
    let (feed, receiver) = mpsc::channel(4);
    let mut proposals = control.feed(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    assert_eq!(proposals.message().await.unwrap().unwrap().reports, 0);
    let mut node = Node::connect(&serving, "a", 1).await;
    node.say(wire::request::Op::Evaluated(wire::EvaluationResult::default())).await;
    let reports = loop {
        let reports = proposals.message().await.unwrap().unwrap().reports;
        if reports > 0 {
            break reports;
        }
    };
    let early = tokio::time::timeout(Duration::from_millis(300), node.answer()).await;
    assert!(early.is_err(), "answered before the controller had it: {early:?}");
    feed.send(wire::Observed { received_reports: reports, ..wire::Observed::default() }).await.unwrap();
    assert!(matches!(node.answer().await, wire::reply::Result::Done(_)));
}

#[tokio::test]
async fn a_message_before_the_training_status_does_not_stand_for_its_reports() {
    let serving = Serving::start(1, 1).await;
    let mut node = Node::connect(&serving, "a", 1).await;
    for _ in 0..5 {
        node.join().await;
    }
    node.world(|world| !world.closed.is_empty()).await;
    let values = [("test_auc".to_owned(), 0.75)].into();
    let mut other = Node::connect(&serving, "b", 1).await;
    other.ask(wire::request::Op::Metrics(wire::Metrics { values, at_once: true, ..wire::Metrics::default() })).await;
    let mut control = ControlClient::new(serving.channel().await);
    let (_feed, receiver) = mpsc::channel(4);
    let mut proposals = control.feed(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let closed = proposals.message().await.unwrap().unwrap();
    assert!(matches!(closed.kind, Some(Kind::Closed(_))), "{closed:?}");
    assert_eq!(closed.reports, 0);
    let training = proposals.message().await.unwrap().unwrap();
    assert!(matches!(training.kind, Some(Kind::Training(_))), "{training:?}");
    assert_eq!(training.reports, 1);
}

#[tokio::test]
async fn an_unknown_node_cannot_be_reported_gone() {
    let serving = Serving::start(1, 1).await;
    let mut control = ControlClient::new(serving.channel().await);
    let gone = wire::NodeGoneRequest { name: "unknown".to_owned(), detail: String::new() };
    let status = control.node_gone(gone).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn a_retry_opens_a_closed_run() {
    let serving = Serving::start(1, 1).await;
    let mut node = Node::connect(&serving, "a", 1).await;
    for _ in 0..5 {
        node.join().await;
    }
    let world = node.world(|world| !world.closed.is_empty()).await;
    assert!(world.closed.starts_with("RestartsExhausted"), "{}", world.closed);
    let mut control = ControlClient::new(serving.channel().await);
    control.retry(wire::RetryRequest {}).await.unwrap();
    assert_eq!(node.world(|world| world.closed.is_empty() && world.size == 1).await.round, 4);
}
