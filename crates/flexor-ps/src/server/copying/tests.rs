//! What a copy may cost who makes it.

use flexor_wire::ps::v1::reply::Result as Answer;

use super::*;
use crate::placement::NameHash;
use crate::server::links::MAX_QUEUE;
use crate::server::testing::{model, named, owned_by, plan, server};
use crate::server::{Reports, testing};

const KEY: u64 = 5;

/// Everything is the first server's, with or without copies on the second.
fn map(backup: Option<u32>) -> master::ServerMap {
    testing::map(1, master::Seat { backup, ..owned_by(0) })
}

/// Everything is this server's, and a copy of one partition is to be made.
fn has_to_copy(server: &Server, id: PartitionId, number: u64) {
    let order = master::CopyOrder { partition: id.number(), number, to: Some(named("ps-1")), freeze: false };
    server.plan(&master::ServerPlan { copies: vec![order], ..plan(map(None)) }).unwrap();
}

async fn push(server: &Server, first: u64) -> wire::pushed_part::Outcome {
    let (keys, gradients) = (KEY.to_le_bytes().to_vec().into(), 1.0_f32.to_le_bytes().to_vec().into());
    let rows = vec![wire::RowGradients { table: 0, keys, gradients }];
    let batch = Some(wire::Batch { dataset: 1, epoch: 0, first, records: 1 });
    let push = wire::Push { model: model().fingerprint().0, batch, rows, ..wire::Push::default() };
    let request = wire::Request { id: 1, op: Some(wire::request::Op::Push(push)) };
    let Some(Answer::Pushed(pushed)) = server.answered(request).await.result else { panic!("it is not answered for") };
    pushed.parts[0].outcome()
}

fn failures(reports: &mut Reports) -> Vec<u64> {
    let mut failed = Vec::new();
    while let Ok(report) = reports.try_recv() {
        if let master::from_server::Message::Copy(copy) = report
            && copy.state() == master::copy_report::State::Failed
        {
            failed.push(copy.number);
        }
    }
    failed
}

/// Nothing here waits for anything, so that the link never comes to sending what it is given.
#[tokio::test]
async fn a_copy_is_given_up_when_training_changes_more_than_can_be_sent() {
    let (server, mut reports) = server();
    let id = NameHash::of("t").place(KEY).partition();
    has_to_copy(&server, id, 1);
    let link = server.0.posts.lock(id).followers[0].link.clone();
    assert_eq!(push(&server, 0).await, wire::pushed_part::Outcome::Taken);
    assert_eq!((server.0.posts.lock(id).followers.len(), failures(&mut reports)), (1, vec![]));

    link.fill(MAX_QUEUE);
    assert_eq!(push(&server, 1).await, wire::pushed_part::Outcome::Taken, "training goes on");
    assert_eq!(server.0.posts.lock(id).followers.len(), 0, "nothing more is sent to it");
    assert_eq!(failures(&mut reports), [1]);
    has_to_copy(&server, id, 1);
    assert_eq!(server.0.posts.lock(id).followers.len(), 0, "it is not begun again by the same order");
    has_to_copy(&server, id, 2);
    assert_eq!(server.0.posts.lock(id).followers.len(), 1);
}

#[tokio::test]
async fn a_copy_that_is_lost_with_its_link_is_not_begun_again_by_the_same_order() {
    let (server, mut reports) = server();
    let id = NameHash::of("t").place(KEY).partition();
    has_to_copy(&server, id, 1);
    let link = server.0.posts.lock(id).followers[0].link.clone();
    server.report_out_of_reach(&link, "it broke");
    assert_eq!(failures(&mut reports), [1]);
    has_to_copy(&server, id, 1);
    assert_eq!(server.0.posts.lock(id).followers.len(), 0, "the master has not heard of it yet");
    has_to_copy(&server, id, 2);
    assert_eq!(server.0.posts.lock(id).followers.len(), 1);
}

/// The owner has missed a map, the one who kept the copy has not: it has nothing any more.
#[tokio::test]
async fn who_is_not_the_backup_by_this_map_is_sent_everything_again() {
    let (server, _reports) = server();
    let id = NameHash::of("t").place(KEY).partition();
    let follower = |backup, number| {
        let order = master::CopyOrder { partition: id.number(), number, to: Some(named("ps-1")), freeze: false };
        server.plan(&master::ServerPlan { copies: vec![order], ..plan(map(backup)) }).unwrap();
        let post = server.0.posts.lock(id);
        let [one] = &post.followers[..] else { panic!("not one follower") };
        (one.copy, one.order, one.standing)
    };
    server.plan(&plan(map(Some(1)))).unwrap();
    assert_eq!(follower(Some(1), 2), (None, Some(CopyNumber(2)), Standing::Whole), "it has everything by this map");
    let again = Some(CopyNumber(3));
    assert_eq!(follower(None, 3), (again, again, Standing::Arriving));
    assert_eq!(follower(None, 3), (again, again, Standing::Arriving), "and once only");
}

#[tokio::test]
async fn all_copies_that_are_out_of_reach_are_told_in_one_word() {
    let (server, mut reports) = server();
    let plan = master::ServerPlan { map: Some(map(Some(1))), ..master::ServerPlan::default() };
    let all: Vec<u32> = PartitionId::all().map(PartitionId::number).collect();
    for when in ["when the link breaks", "with every plan as long as the map has them"] {
        server.plan(&plan).unwrap();
        let missing = loop {
            if let master::from_server::Message::Unreachable(missing) = reports.recv().await.unwrap() {
                break missing;
            }
        };
        assert_eq!(missing.partitions, all, "{when}");
        assert_eq!(missing.server.map(|server| server.name).as_deref(), Some("ps-1"), "{when}");
    }
}
