//! Syncs on the primary.

use flexor_wire::ps::v1::reply::Result as Answer;

use super::*;
use crate::placement::NameHash;
use crate::server::replication_link::MAX_QUEUE;
use crate::server::testing::{model, named, plan, primary_is, server};
use crate::server::{Reports, testing};

const KEY: u64 = 5;

/// The first server is primary of everything, with or without backups on the second.
fn map(backup: Option<u32>) -> master::PartitionMap {
    testing::map(1, master::PartitionReplicas { backup, ..primary_is(0) })
}

/// Makes the server primary of everything, with an order to sync one partition.
fn order_sync(server: &Server, id: PartitionId, sync_id: u64) {
    let order = master::SyncOrder { partition: id.number(), sync_id, to: Some(named("ps-1")), freeze: false };
    server.apply_plan(&master::ServerPlan { syncs: vec![order], ..plan(map(None)) }).unwrap();
}

async fn push(server: &Server, first: u64) -> wire::pushed_part::Outcome {
    let (keys, gradients) = (KEY.to_le_bytes().to_vec().into(), 1.0_f32.to_le_bytes().to_vec().into());
    let rows = vec![wire::RowGradients { table: 0, keys, gradients }];
    let batch = Some(wire::Batch { dataset: 1, epoch: 0, first, records: 1 });
    let push = wire::Push { model: model().fingerprint().0, batch, rows, ..wire::Push::default() };
    let request = wire::Request { id: 1, op: Some(wire::request::Op::Push(push)) };
    let Some(Answer::Pushed(pushed)) = server.answered(request).await.result else {
        panic!("the push is not acknowledged")
    };
    pushed.parts[0].outcome()
}

fn failures(reports: &mut Reports) -> Vec<u64> {
    let mut failed = Vec::new();
    while let Ok(report) = reports.try_recv() {
        if let master::from_server::Message::Sync(report) = report
            && report.state() == master::sync_report::State::Failed
        {
            failed.push(report.sync_id);
        }
    }
    failed
}

/// The test never yields, so the link task never sends anything.
#[tokio::test]
async fn a_sync_is_cancelled_when_training_changes_more_than_can_be_sent() {
    let (server, mut reports) = server();
    let id = NameHash::of("t").hash_key(KEY).partition();
    order_sync(&server, id, 1);
    let link = server.0.replicas.lock(id).targets[0].link.clone();
    assert_eq!(push(&server, 0).await, wire::pushed_part::Outcome::Applied);
    assert_eq!((server.0.replicas.lock(id).targets.len(), failures(&mut reports)), (1, vec![]));

    link.fill(MAX_QUEUE);
    assert_eq!(push(&server, 1).await, wire::pushed_part::Outcome::Applied, "training goes on");
    assert_eq!(server.0.replicas.lock(id).targets.len(), 0, "nothing more is sent");
    assert_eq!(failures(&mut reports), [1]);
    order_sync(&server, id, 1);
    assert_eq!(server.0.replicas.lock(id).targets.len(), 0, "the same order does not start it again");
    order_sync(&server, id, 2);
    assert_eq!(server.0.replicas.lock(id).targets.len(), 1);
}

#[tokio::test]
async fn a_sync_lost_with_its_link_is_not_started_again_by_the_same_order() {
    let (server, mut reports) = server();
    let id = NameHash::of("t").hash_key(KEY).partition();
    order_sync(&server, id, 1);
    let link = server.0.replicas.lock(id).targets[0].link.clone();
    server.report_broken_link(&link, "it broke");
    assert_eq!(failures(&mut reports), [1]);
    order_sync(&server, id, 1);
    assert_eq!(server.0.replicas.lock(id).targets.len(), 0, "the master does not know yet");
    order_sync(&server, id, 2);
    assert_eq!(server.0.replicas.lock(id).targets.len(), 1);
}

/// The primary skipped a map that the backup knows: by it the backup has dropped its contents.
#[tokio::test]
async fn a_former_backup_is_synced_anew() {
    let (server, _reports) = server();
    let id = NameHash::of("t").hash_key(KEY).partition();
    let target = |backup, sync_id| {
        let order = master::SyncOrder { partition: id.number(), sync_id, to: Some(named("ps-1")), freeze: false };
        server.apply_plan(&master::ServerPlan { syncs: vec![order], ..plan(map(backup)) }).unwrap();
        let replica = server.0.replicas.lock(id);
        let [one] = &replica.targets[..] else { panic!("not one target") };
        (one.sync_id, one.order, one.sync_state)
    };
    server.apply_plan(&plan(map(Some(1)))).unwrap();
    assert_eq!(target(Some(1), 2), (None, Some(SyncId(2)), SyncState::InSync), "it is in sync by this map");
    let again = Some(SyncId(3));
    assert_eq!(target(None, 3), (again, again, SyncState::Syncing));
    assert_eq!(target(None, 3), (again, again, SyncState::Syncing), "and once only");
}

#[tokio::test]
async fn all_unreachable_backups_are_in_one_report() {
    let (server, mut reports) = server();
    let plan = master::ServerPlan { map: Some(map(Some(1))), ..master::ServerPlan::default() };
    let all: Vec<u32> = PartitionId::all().map(PartitionId::number).collect();
    for when in ["when the link breaks", "with every plan that names them"] {
        server.apply_plan(&plan).unwrap();
        let unreachable = loop {
            if let master::from_server::Message::Unreachable(unreachable) = reports.recv().await.unwrap() {
                break unreachable;
            }
        };
        assert_eq!(unreachable.partitions, all, "{when}");
        assert_eq!(unreachable.server.map(|server| server.name).as_deref(), Some("ps-1"), "{when}");
    }
}
