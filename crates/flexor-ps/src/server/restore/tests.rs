//! Restores from checkpoints that are readable late, or not at all.

use std::fs;
use std::sync::atomic::Ordering;

use flexor_wire::master::v1::from_server::Message;

use super::*;
use crate::checkpoint::{CheckpointCut, put_manifest, put_part};
use crate::layout::Layout;
use crate::placement::PARTITIONS;
use crate::server::Reports;
use crate::server::testing::{map, model, plan, primary_is, server};

fn write(directory: &Path, number: u64) {
    let (storage, id) = (DirectoryStorage::new(directory), CheckpointId(number));
    let hosted = HostedPartitions::new(Layout::new(model()).unwrap());
    hosted.make(PartitionId::all());
    let part = put_part(&storage, id, "ps-0", &hosted, CheckpointCut::PerPartition).unwrap();
    put_manifest(&storage, id, &model(), vec![part], Vec::new()).unwrap();
}

/// A server with orders to restore every partition from checkpoint 1.
fn restoring_server(directory: &Path) -> (Server, Reports) {
    let (server, reports) = server();
    server.0.has_listed_checkpoints.store(true, Ordering::Release);
    let replicas = master::PartitionReplicas { generation: 2, checkpoint: Some(1), ..primary_is(0) };
    let path = directory.display().to_string();
    let directory = master::CheckpointDirectory { path, ..master::CheckpointDirectory::default() };
    server.apply_plan(&master::ServerPlan { checkpoints: Some(directory), ..plan(map(1, replicas)) }).unwrap();
    (server, reports)
}

async fn report(reports: &mut Reports) -> master::RestoreReport {
    match reports.recv().await {
        Some(Message::Restore(report)) => report,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_is_mounted_late_is_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let (aside, late) = (home.path().join("aside"), home.path().join("late"));
    write(&aside, 1);
    let (server, mut reports) = restoring_server(&late);
    tokio::time::sleep(RETRY_PAUSE).await;
    fs::rename(aside, late).unwrap();
    let report = report(&mut reports).await;
    assert_eq!((report.unreadable, report.partitions.len()), (None, PARTITIONS), "{}", report.why);
    assert!(PartitionId::all().all(|id| server.0.hosted.get().unwrap().holds(id)));
}

#[tokio::test(start_paused = true)]
async fn a_failing_storage_is_not_reported_as_damage() {
    let home = tempfile::tempdir().unwrap();
    let (_server, mut reports) = restoring_server(&home.path().join("never"));
    let report = report(&mut reports).await;
    assert_eq!((report.unreadable, report.damaged, report.partitions.len()), (Some(1), false, PARTITIONS));
    assert!(
        report.why.contains("cannot read") && report.partitions.iter().all(|one| one.generation == 2),
        "{report:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_checkpoint_is_damaged() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 3] = [
        ("the file has", |directory| {
            let tables = directory.join("checkpoint-000000000001/tables-ps-0.flx");
            fs::write(tables, "cut").unwrap();
        }),
        ("the file is missing", |directory| {
            fs::remove_file(directory.join("checkpoint-000000000001/tables-ps-0.flx")).unwrap();
        }),
        ("has no checkpoint 1", |directory| {
            write(directory, 2);
            fs::remove_dir_all(directory.join("checkpoint-000000000001")).unwrap();
        }),
    ];
    for (message, damage) in damages {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), 1);
        damage(home.path());
        let (_server, mut reports) = restoring_server(home.path());
        let report = report(&mut reports).await;
        assert!(report.damaged && report.unreadable == Some(1) && report.why.contains(message), "{report:?}");
    }
}
