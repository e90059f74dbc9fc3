//! Parameter servers over real sockets: the map that they and their clients are told.

use std::path::Path;
use std::time::Duration;

use flexor_master::Checkpoints;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_client::ControlClient;
use flexor_wire::master::v1::from_server::Message;
use flexor_wire::master::v1::proposal::Kind;
use flexor_wire::master::v1::ps_membership_client::PsMembershipClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::serving::{Node, Serving};

/// A variable of 2^96 elements.
const HUGE_MODEL: &str = r#"{"variables":[{"name":"w","shape":[4294967296,4294967296,4294967296],"init":"zeros"}],
    "tables":[],"optimizer":{"kind":"sgd","learningRate":0.1},"seed":1}"#;

/// A model without parameters.
fn model(seed: u64) -> String {
    format!(r#"{{"variables":[],"tables":[],"optimizer":{{"kind":"sgd","learningRate":0.1}},"seed":{seed}}}"#)
}

/// A server that does at once what it is told.
struct FakeServer {
    reports: mpsc::Sender<wire::FromServer>,
    messages: Streaming<wire::ToServer>,
}

impl FakeServer {
    async fn come(serving: &Serving, name: &str, incarnation: u64) -> Self {
        let (reports, receiver) = mpsc::channel(64);
        let server = Some(wire::Node { name: name.to_owned(), incarnation });
        let hello = wire::ServerHello { server, address: format!("{name}:2222"), leaving: false };
        reports.send(wire::FromServer { message: Some(Message::Hello(hello)) }).await.unwrap();
        let mut client = PsMembershipClient::new(serving.channel().await);
        let messages = client.serve(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { reports, messages }
    }

    async fn next(&mut self) -> wire::to_server::Message {
        let message = tokio::time::timeout(Duration::from_secs(20), self.messages.message()).await;
        message.expect("it is told in time").unwrap().expect("the stream is open").message.unwrap()
    }

    /// What it is told next of steps that are taken.
    async fn committed_steps(&mut self) -> wire::CommittedSteps {
        loop {
            if let wire::to_server::Message::Steps(steps) = self.next().await
                && steps.committed > 0
            {
                return steps;
            }
        }
    }

    /// What it is told next of records of which no update comes any more.
    async fn closed(&mut self) -> Vec<wire::ClosedRange> {
        loop {
            if let wire::to_server::Message::Closed(closed) = self.next().await {
                return closed.ranges;
            }
        }
    }

    /// Carries out the next checkpoint order; returns the number of the checkpoint.
    async fn write_checkpoint(&mut self) -> u64 {
        let number = loop {
            if let wire::to_server::Message::Plan(wire::ServerPlan { checkpoint: Some(order), .. }) = self.next().await
            {
                break order.number;
            }
        };
        for result in
            [wire::checkpoint_report::Result::Part("{}".to_owned()), wire::checkpoint_report::Result::Sealed(true)]
        {
            let report = wire::CheckpointReport { number, result: Some(result) };
            self.reports.send(wire::FromServer { message: Some(Message::Checkpoint(report)) }).await.unwrap();
        }
        loop {
            if let wire::to_server::Message::Plan(wire::ServerPlan { checkpoint: None, .. }) = self.next().await {
                return number;
            }
        }
    }

    /// Completes every ordered sync until a map meets the condition.
    async fn sync_until(&mut self, condition: impl Fn(&wire::PartitionMap) -> bool) -> wire::PartitionMap {
        loop {
            let wire::to_server::Message::Plan(plan) = self.next().await else { continue };
            for order in plan.syncs {
                let state =
                    if order.freeze { wire::sync_report::State::Frozen } else { wire::sync_report::State::InSync };
                let (partition, sync_id) = (order.partition, order.sync_id);
                let report = wire::SyncReport { partition, sync_id, state: state.into(), detail: String::new() };
                self.reports.send(wire::FromServer { message: Some(Message::Sync(report)) }).await.unwrap();
            }
            if let Some(map) = plan.map.filter(&condition) {
                return map;
            }
        }
    }
}

fn in_an_hour() -> Checkpoints {
    Checkpoints { folder: "kept".to_owned(), every: Duration::from_secs(3600), keep: 0 }
}

/// A master whose checkpoints are due in an hour, a server, and a model.
async fn saving(state: Option<&Path>) -> (Serving, FakeServer) {
    let serving = Serving::saving(1, 1, state, None, Some(in_an_hour())).await.unwrap();
    let server = FakeServer::come(&serving, "ps-0", 1).await;
    let found = wire::CheckpointsFound::default();
    server.reports.send(wire::FromServer { message: Some(Message::CheckpointsFound(found)) }).await.unwrap();
    let mut client = PsMembershipClient::new(serving.channel().await);
    client.declare_model(wire::DeclareModelRequest { model: model(1) }).await.unwrap();
    (serving, server)
}

fn primaries_of(map: &wire::PartitionMap, name: &str) -> usize {
    let index = map.servers.iter().position(|server| server.name == name).map(|index| index as u32);
    map.partitions.iter().filter(|replicas| index.is_some() && replicas.primary == index).count()
}

fn observed(servers: &[(&str, bool)], expected: u32) -> wire::Observed {
    let pod = |(name, leaving): &(&str, bool)| wire::Pod {
        name: (*name).to_owned(),
        uid: (*name).to_owned(),
        role: "ps".to_owned(),
        phase: "Running".to_owned(),
        leaving: *leaving,
        ..wire::Pod::default()
    };
    wire::Observed {
        servers: servers.iter().map(pod).collect(),
        expected_servers: Some(expected),
        ..wire::Observed::default()
    }
}

#[tokio::test]
async fn a_server_gives_away_what_it_keeps_and_is_released() {
    let serving = Serving::start(1, 1).await;
    let mut control = ControlClient::new(serving.channel().await);
    let (feed, receiver) = mpsc::channel(4);
    feed.send(observed(&[("ps-0", false), ("ps-1", false)], 2)).await.unwrap();
    let mut proposals = control.feed(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let mut zero = FakeServer::come(&serving, "ps-0", 1).await;
    let mut one = FakeServer::come(&serving, "ps-1", 1).await;
    let map = zero.sync_until(|map| map.epoch > 0).await;
    assert_eq!((map.partitions.len(), primaries_of(&map, "ps-0"), primaries_of(&map, "ps-1")), (256, 128, 128));
    assert_eq!(map.servers[0].address, "ps-0:2222");

    feed.send(observed(&[("ps-0", false), ("ps-1", true)], 1)).await.unwrap();
    let map = one.sync_until(|map| primaries_of(map, "ps-0") == 256).await;
    assert!(map.partitions.iter().all(|replicas| replicas.generation == 1), "no partition has a new generation");
    let released = async {
        loop {
            if let Some(Kind::Released(released)) = proposals.message().await.unwrap().unwrap().kind {
                return released.pods;
            }
        }
    };
    let released = tokio::time::timeout(Duration::from_secs(20), released).await.unwrap();
    assert_eq!(released, ["ps-1"]);
}

#[tokio::test]
async fn clients_are_told_the_map_and_the_model_and_another_model_is_refused() {
    let serving = Serving::start(1, 1).await;
    let mut client = PsMembershipClient::new(serving.channel().await);
    let mut maps = client.watch_partition_map(wire::WatchPartitionMapRequest {}).await.unwrap().into_inner();
    assert_eq!(maps.message().await.unwrap().unwrap().epoch, 0);
    for wrong in ["[".to_owned(), "[".repeat(100_000), "{}".to_owned(), HUGE_MODEL.to_owned()] {
        let refused = client.declare_model(wire::DeclareModelRequest { model: wrong }).await.unwrap_err();
        assert!(refused.message().contains("ModelInvalid"), "{refused}");
    }
    // Nothing of it became the job's model.
    client.declare_model(wire::DeclareModelRequest { model: model(1) }).await.unwrap();
    let refused = client.declare_model(wire::DeclareModelRequest { model: model(2) }).await.unwrap_err();
    assert!(refused.message().contains("ModelDiffers"), "{refused}");
    // Without a controller those who come are all.
    let _server = FakeServer::come(&serving, "ps-0", 1).await;
    let map = loop {
        let map = maps.message().await.unwrap().unwrap();
        if map.epoch > 0 {
            break map;
        }
    };
    assert_eq!((primaries_of(&map, "ps-0"), map.model.as_str()), (256, model(1).as_str()));
}

#[tokio::test]
async fn an_earlier_life_of_a_server_is_refused() {
    let serving = Serving::start(1, 1).await;
    let _later = FakeServer::come(&serving, "ps-0", 2).await;
    let mut earlier = FakeServer::come(&serving, "ps-0", 1).await;
    let wire::to_server::Message::Refusal(refusal) = earlier.next().await else { panic!("it is not refused") };
    assert_eq!(refusal.reason, "ServerReplaced");
}

/// How many batches there are, in one step: what is told of it is long.
const IN_STEP: u64 = 20_000;

#[tokio::test]
async fn what_a_server_says_is_heard_while_it_does_not_listen() {
    let serving = Serving::start(1, 1).await;
    let mut server = FakeServer::come(&serving, "ps-0", 1).await;
    server.sync_until(|map| map.epoch > 0).await;
    let mut worker = Node::connect(&serving, "w", 1).await;
    let steps = wire::Dataset {
        name: "d".to_owned(),
        records: IN_STEP,
        batch: 1,
        epochs: Some(1),
        step_batches: Some(IN_STEP),
        ..Default::default()
    };
    worker.ask(wire::request::Op::Register(steps)).await;
    loop {
        let wanted = wire::LeaseBatches { dataset: "d".to_owned(), batches: 1024, ..Default::default() };
        let wire::reply::Result::Lease(lease) = worker.ask(wire::request::Op::Lease(wanted)).await else { panic!() };
        if lease.finished {
            break;
        }
        let done = wire::AcknowledgeBatches { done: lease.held, ..Default::default() };
        worker.ask(wire::request::Op::Acknowledge(done)).await;
    }
    server.committed_steps().await;

    // More than fits on the way; and then something else, which is not behind it.
    const ASKED: usize = 64;
    for _ in 0..ASKED {
        let need = Message::RequestSteps(wire::RequestSteps { first: 0 });
        server.reports.send(wire::FromServer { message: Some(need) }).await.unwrap();
    }
    let load = Message::Load(wire::ServerLoad { rows: 4711, ..Default::default() });
    server.reports.send(wire::FromServer { message: Some(load) }).await.unwrap();
    let is_heard = async {
        while !Serving::http(serving.grpc, "GET /api/status HTTP/1.1").await.1.contains("\"rows\":4711") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), is_heard).await.expect("the master hears it");
    let (_, status) = Serving::http(serving.grpc, "GET /api/status HTTP/1.1").await;
    assert!(status.contains("\"runs\":[]"), "who trains with servers waits for nobody: {status}");
    for _ in 0..ASKED {
        assert_eq!(server.committed_steps().await.steps[0].batches.len() as u64, IN_STEP, "and all is told in the end");
    }
}

#[tokio::test]
async fn a_server_is_told_what_is_newly_closed_and_all_of_it_when_it_comes_back() {
    let serving = Serving::start(1, 1).await;
    let mut server = FakeServer::come(&serving, "ps-0", 1).await;
    server.sync_until(|map| map.epoch > 0).await;
    let mut worker = Node::connect(&serving, "w", 1).await;
    let all = wire::Dataset { name: "d".to_owned(), records: 30, batch: 10, epochs: Some(9), ..Default::default() };
    worker.ask(wire::request::Op::Register(all)).await;
    let range = |epoch, end, first_epoch| wire::ClosedRange { epoch, first: 0, end, first_epoch, ..Default::default() };
    let unnumbered = |ranges: Vec<wire::ClosedRange>| -> Vec<wire::ClosedRange> {
        ranges.into_iter().map(|range| wire::ClosedRange { dataset: 0, ..range }).collect()
    };
    for (epoch, batches) in [(0, 3), (1, 3), (2, 3), (3, 1)] {
        let wanted = wire::LeaseBatches { dataset: "d".to_owned(), batches, ..Default::default() };
        let wire::reply::Result::Lease(lease) = worker.ask(wire::request::Op::Lease(wanted)).await else { panic!() };
        let done = wire::AcknowledgeBatches { done: lease.held, ..Default::default() };
        worker.ask(wire::request::Op::Acknowledge(done)).await;
        assert_eq!(unnumbered(server.closed().await), [range(epoch, batches * 10, None)]);
    }
    drop(server);
    let mut server = FakeServer::come(&serving, "ps-0", 1).await;
    assert_eq!(unnumbered(server.closed().await), [range(2, 30, Some(0)), range(3, 10, None)]);
}

#[tokio::test]
async fn versions_come_with_acknowledged_batches_and_with_resumed_ones() {
    let serving = Serving::start(1, 1).await;
    let mut server = FakeServer::come(&serving, "ps-0", 1).await;
    server.sync_until(|map| map.epoch > 0).await;
    let mut worker = Node::connect(&serving, "w", 1).await;
    let all = wire::Dataset { name: "d".to_owned(), records: 30, batch: 10, epochs: Some(9), ..Default::default() };
    worker.ask(wire::request::Op::Register(all)).await;
    let applied = async |expected: u64| {
        let (_, status) = Serving::http(serving.grpc, "GET /api/status HTTP/1.1").await;
        assert!(status.contains(&format!("\"updates\":{{\"applied\":{expected},")), "{status}");
    };
    let versions = |gaps: &[u64]| vec![wire::AcknowledgedVersions { partition: 7, generation: 1, gaps: gaps.to_vec() }];
    let wanted = wire::LeaseBatches { dataset: "d".to_owned(), batches: 1, ..Default::default() };
    let wire::reply::Result::Lease(lease) = worker.ask(wire::request::Op::Lease(wanted)).await else { panic!() };
    let done = wire::AcknowledgeBatches { done: lease.held, versions: versions(&[1, 3]), ..Default::default() };
    worker.ask(wire::request::Op::Acknowledge(done)).await;
    applied(3).await;
    let again = wire::Resume { versions: versions(&[1, 5]), ..Default::default() };
    worker.ask(wire::request::Op::Resume(again)).await;
    applied(5).await;

    // What no worker of ours sends is refused as a whole, and the batch stays open.
    let wanted = wire::LeaseBatches { dataset: "d".to_owned(), batches: 1, ..Default::default() };
    let wire::reply::Result::Lease(lease) = worker.ask(wire::request::Op::Lease(wanted)).await else { panic!() };
    let many_gaps = versions(&[1; 2 * 128 + 2]);
    let many_entries = vec![versions(&[1, 9])[0].clone(); 2049];
    for versions in [many_gaps, many_entries] {
        let done = wire::AcknowledgeBatches { done: lease.held, versions, ..Default::default() };
        match worker.ask(wire::request::Op::Acknowledge(done)).await {
            wire::reply::Result::Refusal(refusal) => assert_eq!(refusal.reason, "ProtocolViolation", "{refusal:?}"),
            other => panic!("{other:?}"),
        }
    }
    applied(5).await;
    let done = wire::AcknowledgeBatches { done: lease.held, ..Default::default() };
    let wire::reply::Result::Accounted(accounted) = worker.ask(wire::request::Op::Acknowledge(done)).await else {
        panic!()
    };
    assert_eq!(accounted.records, 10);
}

async fn learn_all(serving: &Serving) {
    let mut worker = Node::connect(serving, "w", 1).await;
    let all = wire::Dataset { name: "d".to_owned(), records: 20, batch: 10, epochs: Some(1), ..Default::default() };
    worker.ask(wire::request::Op::Register(all)).await;
    for _ in 0..2 {
        let wanted = wire::LeaseBatches { dataset: "d".to_owned(), batches: 1, ..Default::default() };
        let wire::reply::Result::Lease(lease) = worker.ask(wire::request::Op::Lease(wanted)).await else { panic!() };
        let done = wire::AcknowledgeBatches { done: lease.held, ..Default::default() };
        worker.ask(wire::request::Op::Acknowledge(done)).await;
    }
}

#[tokio::test]
async fn the_last_checkpoint_is_begun_when_all_is_learnt_though_nobody_asks_for_it() {
    let (serving, mut server) = saving(None).await;
    server.sync_until(|map| map.epoch > 0).await;
    learn_all(&serving).await;
    let number = server.write_checkpoint().await;
    let mut client = PsMembershipClient::new(serving.channel().await);
    let saved = client.save_model(wire::SaveModelRequest {}).await.unwrap().into_inner();
    assert!(!saved.unfinished);
    let (_, status) = Serving::http(serving.grpc, "GET /api/status HTTP/1.1").await;
    assert!(status.contains(&format!("\"latest\":{number}")), "and no other is made for who asks: {status}");
}

#[tokio::test]
async fn the_last_checkpoint_is_not_made_again_by_the_next_master() {
    let state = tempfile::tempdir().unwrap();
    let (before, mut server) = saving(Some(state.path())).await;
    server.sync_until(|map| map.epoch > 0).await;
    learn_all(&before).await;
    let number = server.write_checkpoint().await;
    drop(before);
    let after = Serving::saving(1, 1, Some(state.path()), None, Some(in_an_hour())).await.unwrap();
    let mut again = FakeServer::come(&after, "ps-0", 1).await;
    again.sync_until(|map| map.epoch > 0 && !map.servers.is_empty()).await;
    let mut client = PsMembershipClient::new(after.channel().await);
    let saved = tokio::time::timeout(Duration::from_secs(20), client.save_model(wire::SaveModelRequest {})).await;
    assert!(!saved.expect("nobody has to write anything").unwrap().into_inner().unfinished);
    let (_, status) = Serving::http(after.grpc, "GET /api/status HTTP/1.1").await;
    assert!(status.contains(&format!("\"latest\":{number}")), "{status}");
}

#[tokio::test]
async fn the_map_survives_the_master() {
    let state = tempfile::tempdir().unwrap();
    let before = Serving::with(1, 1, Some(state.path()), None).await.unwrap();
    let mut server = FakeServer::come(&before, "ps-0", 1).await;
    let map = server.sync_until(|map| map.epoch > 0).await;
    drop(before);
    let after = Serving::with(1, 1, Some(state.path()), None).await.unwrap();
    let mut again = FakeServer::come(&after, "ps-0", 1).await;
    let same = again.sync_until(|map| map.epoch > 0 && !map.servers.is_empty()).await;
    assert_eq!((same.epoch, same.partitions), (map.epoch, map.partitions));
    assert!(same.generation > map.generation);
}
