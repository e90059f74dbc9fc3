//! Checkpoints that cannot be read at once, or not at all.

use std::fs;
use std::sync::atomic::Ordering;

use flexor_wire::master::v1::from_server::Message;

use super::*;
use crate::checkpoint::{Moment, put_manifest, put_part};
use crate::layout::Layout;
use crate::placement::PARTITIONS;
use crate::server::Reports;
use crate::server::testing::{map, model, owned_by, plan, server};

/// Writes a checkpoint.
fn write(folder: &Path, number: u64) {
    let (storage, id) = (Folder::new(folder), CheckpointId(number));
    let hosted = Hosted::new(Layout::new(model()).unwrap());
    hosted.make(PartitionId::all());
    let part = put_part(&storage, id, "ps-0", &hosted, Moment::OneByOne).unwrap();
    put_manifest(&storage, id, &model(), vec![part], Vec::new()).unwrap();
}

/// A server that is told to begin everything with checkpoint 1.
fn told_to_begin(folder: &Path) -> (Server, Reports) {
    let (server, reports) = server();
    server.0.has_looked.store(true, Ordering::Release);
    let seat = master::Seat { origin: 2, checkpoint: Some(1), ..owned_by(0) };
    let place = master::CheckpointPlace { folder: folder.display().to_string(), ..master::CheckpointPlace::default() };
    server.plan(&master::ServerPlan { checkpoints: Some(place), ..plan(map(1, seat)) }).unwrap();
    (server, reports)
}

async fn report(reports: &mut Reports) -> master::BeginReport {
    match reports.recv().await {
        Some(Message::Begun(report)) => report,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_comes_late_is_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let (aside, late) = (home.path().join("aside"), home.path().join("late"));
    write(&aside, 1);
    let (server, mut reports) = told_to_begin(&late);
    tokio::time::sleep(TRIES.1).await;
    fs::rename(aside, late).unwrap();
    let report = report(&mut reports).await;
    assert_eq!((report.unreadable, report.partitions.len()), (None, PARTITIONS), "{}", report.why);
    assert!(PartitionId::all().all(|id| server.0.hosted.get().unwrap().holds(id)));
}

#[tokio::test(start_paused = true)]
async fn what_the_storage_does_not_give_is_not_called_damaged() {
    let home = tempfile::tempdir().unwrap();
    let (_server, mut reports) = told_to_begin(&home.path().join("never"));
    let report = report(&mut reports).await;
    assert_eq!((report.unreadable, report.damaged, report.partitions.len()), (Some(1), false, PARTITIONS));
    assert!(report.why.contains("cannot read") && report.partitions.iter().all(|one| one.origin == 2), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_as_it_was_written_is_damaged() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 3] = [
        ("it has", |folder| {
            let tables = folder.join("checkpoint-000000000001/tables-ps-0.flx");
            fs::write(tables, "cut").unwrap();
        }),
        ("it is not there", |folder| {
            fs::remove_file(folder.join("checkpoint-000000000001/tables-ps-0.flx")).unwrap();
        }),
        ("has no checkpoint 1", |folder| {
            write(folder, 2);
            fs::remove_dir_all(folder.join("checkpoint-000000000001")).unwrap();
        }),
    ];
    for (told, harm) in harms {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), 1);
        harm(home.path());
        let (_server, mut reports) = told_to_begin(home.path());
        let report = report(&mut reports).await;
        assert!(report.damaged && report.unreadable == Some(1) && report.why.contains(told), "{report:?}");
    }
}
