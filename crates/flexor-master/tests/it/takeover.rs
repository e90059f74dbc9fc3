//! Two masters of the same job: one after the other, and both at once.

use flexor_master::MasterError;
use flexor_master::journal::JournalError;
use flexor_wire::master::v1 as wire;
use wire::reply::Result as Answer;
use wire::request::Op;

use crate::serving::{Node, Serving, call};

#[tokio::test]
async fn the_next_master_knows_the_world_and_the_keys() {
    let folder = tempfile::tempdir().unwrap();
    let first = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    let mut node = Node::connect(&first, "a", 1).await;
    node.join().await;
    node.complete().await;
    let set = wire::SetKey { key: "k".to_owned(), value: "v".into(), durable: true };
    call(&first, Op::Set(set)).await;
    drop(first);

    let second = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    assert_eq!(second.generation, 2);
    let Answer::Value(value) = call(&second, Op::Get(wire::GetKey { key: "k".to_owned() })).await else { panic!() };
    assert_eq!(value.value, "v");
    let (_, status) = Serving::http(second.grpc, "GET /api/status HTTP/1.1").await;
    assert!(status.contains("\"round\":0") && status.contains("\"worldSize\":1"), "{status}");
}

#[tokio::test]
async fn of_two_masters_the_older_one_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    let second = Serving::with(1, 1, Some(folder.path()), None).await.unwrap();
    let node = Node::connect(&first, "a", 1).await;
    node.join().await;
    let ended = first.ended().await;
    assert!(
        matches!(&ended, Err(MasterError::Journal(JournalError::Superseded { by })) if by.0 == second.generation),
        "{ended:?}"
    );
    let mut node = Node::connect(&second, "a", 1).await;
    node.join().await;
    node.complete().await;
}

#[tokio::test]
async fn the_next_master_knows_the_processes_of_a_node_that_joined_before() {
    let folder = tempfile::tempdir().unwrap();
    let first = Serving::with(2, 2, Some(folder.path()), None).await.unwrap();
    let mut a = Node::connect(&first, "a", 1).await;
    a.join_with(2).await;
    a.world(|world| world.state() == wire::world::MemberState::Joined).await;
    call(&first, Op::Set(wire::SetKey { key: "k".to_owned(), value: "v".into(), durable: true })).await;
    drop((first, a));

    let second = Serving::with(2, 2, Some(folder.path()), None).await.unwrap();
    let mut b = Node::connect(&second, "b", 1).await;
    b.join_with(3).await;
    let world = b.complete().await;
    assert_eq!((world.first_process, world.processes), (2, 5));
    let mut a = Node::connect(&second, "a", 1).await;
    a.say(Op::Poll(wire::Poll::default())).await;
    let world = a.complete().await;
    assert_eq!((world.first_process, world.processes), (0, 5));
}
