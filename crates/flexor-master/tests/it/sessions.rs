//! Nodes of the native API.

use bytes::Bytes;
use flexor_wire::master::v1 as wire;
use wire::reply::Result as Answer;
use wire::request::Op;
use wire::world::MemberState;

use crate::serving::{Node, Serving, call};

async fn nodes(serving: &Serving, names: &[&str]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(Node::connect(serving, name, 1).await);
    }
    nodes
}

#[tokio::test]
async fn nodes_that_join_get_their_rank_and_the_size_of_the_world() {
    let serving = Serving::start(2, 3).await;
    let mut nodes = nodes(&serving, &["w-10", "w-2", "w-1"]).await;
    for node in &nodes {
        node.join().await;
    }
    let mut ranks = Vec::new();
    for node in &mut nodes {
        let world = node.complete().await;
        ranks.push((world.round, world.rank, world.size, world.leader));
    }
    let leader = || "w-1".to_owned();
    assert_eq!(ranks, [(0, 2, 3, leader()), (0, 1, 3, leader()), (0, 0, 3, leader())]);
}

#[tokio::test]
async fn survivors_get_the_cause_of_the_restart() {
    let serving = Serving::start(1, 2).await;
    let mut nodes = nodes(&serving, &["a", "b"]).await;
    for node in &nodes {
        node.join().await;
    }
    for node in &mut nodes {
        node.complete().await;
    }
    drop(nodes.remove(0));
    let world = nodes[0].world(|world| !world.restart.is_empty()).await;
    assert!(world.restart.starts_with("NodeLost: a"), "{}", world.restart);
    nodes[0].join().await;
    let world = nodes[0].world(|world| world.round == 1 && world.state() == MemberState::InWorld).await;
    assert_eq!((world.rank, world.size), (0, 1));
}

#[tokio::test]
async fn an_earlier_incarnation_of_a_node_is_refused() {
    let serving = Serving::start(1, 1).await;
    Node::connect(&serving, "a", 7).await.join().await;
    let mut later = Node::connect(&serving, "a", 8).await;
    later.join().await;
    later.complete().await;
    let mut client = serving.client().await;
    let node = Some(wire::Node { name: "a".to_owned(), incarnation: 7 });
    let reply = client.call(wire::Request { id: 1, node, op: Some(Op::Join(wire::Join::default())) }).await.unwrap();
    let Some(Answer::Refusal(refusal)) = reply.into_inner().result else { panic!("not refused") };
    assert_eq!(refusal.reason, "NodeFenced");
}

#[tokio::test]
async fn keys_are_set_read_counted_awaited_and_deleted() {
    let serving = Serving::start(1, 1).await;
    let get = || Op::Get(wire::GetKey { key: "k".to_owned() });
    let set = wire::SetKey { key: "k".to_owned(), value: Bytes::from_static(b"v"), durable: true };
    assert_eq!(call(&serving, Op::Set(set)).await, Answer::Done(wire::Done {}));
    let Answer::Value(value) = call(&serving, get()).await else { panic!("no value") };
    assert_eq!((value.present, value.value), (true, Bytes::from_static(b"v")));
    for expected in [5, 10] {
        let add = wire::AddKey { key: "n".to_owned(), amount: 5 };
        assert!(matches!(call(&serving, Op::Add(add)).await, Answer::Count(count) if count.value == expected));
    }
    call(&serving, Op::Delete(wire::DeleteKey { key: "k".to_owned() })).await;
    assert!(matches!(call(&serving, get()).await, Answer::Value(value) if !value.present));

    let wait = |wait_ms| Op::Wait(wire::WaitKeys { keys: vec!["late".to_owned()], wait_ms });
    assert_eq!(call(&serving, wait(10)).await, Answer::Found(wire::Found { all: false }));
    let late = wire::SetKey { key: "late".to_owned(), value: Bytes::new(), durable: false };
    let (found, _) = tokio::join!(call(&serving, wait(20_000)), call(&serving, Op::Set(late)));
    assert_eq!(found, Answer::Found(wire::Found { all: true }));
}

#[tokio::test]
async fn a_poll_waits_for_the_round_it_asks_for() {
    let serving = Serving::start(1, 1).await;
    let poll = |from_round, wait_ms| Op::Poll(wire::Poll { from_round, wait_ms, members: true });
    let Answer::World(world) = call(&serving, poll(None, 0)).await else { panic!("no world") };
    assert_eq!(world.state(), MemberState::Outside);
    let join = call(&serving, Op::Join(wire::Join::default()));
    let (polled, _) = tokio::join!(call(&serving, poll(Some(0), 20_000)), join);
    let Answer::World(world) = polled else { panic!("no world") };
    assert_eq!((world.state(), world.members), (MemberState::InWorld, vec!["caller".to_owned()]));
}

#[tokio::test]
async fn invalid_requests_are_refused_with_a_reason() {
    let serving = Serving::start(1, 1).await;
    let mut client = serving.client().await;
    for request in [
        wire::Request { id: 1, node: None, op: Some(Op::Join(wire::Join::default())) },
        wire::Request { id: 1, node: Some(wire::Node::default()), op: Some(Op::Heartbeat(wire::Heartbeat {})) },
        wire::Request { id: 1, node: None, op: None },
        wire::Request { id: 1, node: None, op: Some(Op::Get(wire::GetKey { key: String::new() })) },
    ] {
        let reply = client.call(request.clone()).await.unwrap().into_inner();
        assert!(matches!(reply.result, Some(Answer::Refusal(_))), "{request:?} got {reply:?}");
    }
}

#[tokio::test]
async fn an_incarnation_that_departs_does_not_affect_the_later_one() {
    let serving = Serving::start(1, 1).await;
    let mut earlier = Node::connect(&serving, "a", 1).await;
    earlier.join().await;
    earlier.complete().await;
    let mut later = Node::connect(&serving, "a", 2).await;
    later.join().await;
    let world = later.complete().await;
    earlier.ask(Op::Depart(wire::Depart { detail: "its launcher has ended".to_owned() })).await;
    let Answer::World(still) = later.ask(Op::Poll(wire::Poll::default())).await else { panic!("no world") };
    assert_eq!((still.state(), still.round, &*still.restart), (wire::world::MemberState::InWorld, world.round, ""));
    later.ask(Op::Depart(wire::Depart { detail: "its launcher has ended".to_owned() })).await;
    let Answer::World(gone) = later.ask(Op::Poll(wire::Poll::default())).await else { panic!("no world") };
    assert_eq!(gone.state(), wire::world::MemberState::Outside);
}

#[tokio::test]
async fn newcomers_learn_that_processes_survive_world_changes() {
    let serving = Serving::start(1, 2).await;
    let mut a = Node::connect(&serving, "a", 1).await;
    a.ask(Op::Join(wire::Join::default())).await;
    call(&serving, Op::Poll(wire::Poll::default())).await;
    let processes_survive = async || match call(&serving, Op::Poll(wire::Poll::default())).await {
        Answer::World(world) => world.processes_survive,
        other => panic!("{other:?}"),
    };
    Serving::http(serving.grpc, "POST /api/expected HTTP/1.1\nContent-Type: application/json\n\n{\"nodes\":1}").await;
    a.complete().await;
    assert!(!processes_survive().await);
    a.ask(Op::OptIn(wire::OptIn {})).await;
    assert!(processes_survive().await);
}
