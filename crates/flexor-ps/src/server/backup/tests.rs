//! Syncs and replicated pushes on the backup.

use flexor_wire::master::v1 as master;

use super::inbox::MAX_BACKLOG;
use super::*;
use crate::partition::Partition;
use crate::placement::NameHash;
use crate::server::testing::{self, primary_is};
use crate::snapshot::{Budget, SnapshotId};

/// `ps-0`; `ps-1` is primary of everything.
fn server() -> Server {
    let (server, _) = testing::server();
    apply_map(&server, 1, primary_is(1));
    server
}

/// Applies a map in which every partition has these replicas. `ps-1` has a new incarnation for each generation.
fn apply_map(server: &Server, epoch: u64, replicas: master::PartitionReplicas) {
    let mut map = testing::map(epoch, replicas);
    map.servers[1].incarnation = replicas.generation;
    server.apply_plan(&testing::plan(map)).unwrap();
}

/// A replicated push with one key.
fn replicated(server: &Server, key: u64, id: u64, part: wire::ReplicatedPart) -> wire::from_primary::Message {
    let rows = wire::RowGradients { table: 0, keys: key.to_le_bytes().to_vec().into(), gradients: vec![0; 4].into() };
    let model = server.0.hosted.get().unwrap().layout().fingerprint().0;
    let push = wire::Push { model, rows: vec![rows], ..wire::Push::default() };
    wire::from_primary::Message::Push(wire::ReplicatedPush { id, parts: vec![part], push: Some(push) })
}

#[test]
fn a_sync_is_rejected_when_training_is_faster_than_the_sync() {
    let (server, (replies, mut receiver)) = (server(), mpsc::unbounded_channel());
    let (key, id) = (5_u64, NameHash::of("t").hash_key(5).partition());
    let layout = server.0.hosted.get().unwrap().layout();
    let mut partition = Partition::new(&layout, id);
    let mut export = partition.start_export(SnapshotId(1), Budget::new(1 << 20));
    let head = partition.next_piece(&mut export).unwrap().unwrap().to_bytes().into();
    let piece = wire::SyncPiece {
        partition: id.number(),
        sync_id: 7,
        generation: 1,
        map_epoch: 1,
        piece: head,
        ..wire::SyncPiece::default()
    };
    server.receive_message(wire::from_primary::Message::Piece(piece), &replies).unwrap();

    let replicated_change = |sequence| {
        let part =
            wire::ReplicatedPart { partition: id.number(), generation: 1, sequence, map_epoch: 1, sync_id: Some(7) };
        replicated(&server, key, sequence, part)
    };
    server.receive_message(replicated_change(1), &replies).unwrap();
    assert_eq!(server.0.inbox.of(id).lock().queued.len(), 1, "it waits for the rest of the sync");
    let many = BacklogReservation::take(&server.0.inbox.backlog, MAX_BACKLOG);
    server.receive_message(replicated_change(2), &replies).unwrap();
    drop(many);
    server.receive_message(replicated_change(3), &replies).unwrap();

    let inbox = server.0.inbox.of(id).lock();
    assert!(inbox.incoming.is_none() && inbox.queued.is_empty(), "nothing of the sync is kept");
    assert_eq!(server.0.inbox.backlog.load(std::sync::atomic::Ordering::Relaxed), 0);
    drop(replies);
    let mut sent = Vec::new();
    while let Some(Ok(wire::FromBackup { message: Some(message) })) = receiver.blocking_recv() {
        sent.push(message);
    }
    use wire::from_backup::Message as Reply;
    let [
        Reply::PiecesReceived(1),
        Reply::Applied(1),
        Reply::Applied(2) | Reply::Rejected(_),
        Reply::Rejected(_) | Reply::Applied(2),
        Reply::Applied(3),
    ] = &sent[..]
    else {
        panic!("{sent:?}")
    };
    let rejected = sent.iter().find_map(|one| if let Reply::Rejected(rejected) = one { Some(rejected) } else { None });
    assert_eq!(rejected.map(|rejected| rejected.sync_id), Some(7));
}

#[test]
fn a_primary_whose_change_a_later_primary_has_superseded_is_rejected() {
    let (server, (replies, mut receiver)) = (server(), mpsc::unbounded_channel());
    let replicas = master::PartitionReplicas {
        primary: Some(1),
        backup: Some(0),
        generation: 1,
        primary_since: 2,
        ..master::PartitionReplicas::default()
    };
    apply_map(&server, 2, replicas);
    let (key, id) = (5_u64, NameHash::of("t").hash_key(5).partition());
    // The first change has not arrived yet, and the second waits for it.
    let part = |map_epoch| wire::ReplicatedPart {
        partition: id.number(),
        generation: 1,
        sequence: 2,
        map_epoch,
        sync_id: None,
    };
    server.receive_message(replicated(&server, key, 10, part(2)), &replies).unwrap();
    assert!(receiver.try_recv().is_err(), "its predecessor has not arrived");
    server.receive_message(replicated(&server, key, 20, part(3)), &replies).unwrap();
    let partly = wire::PartlyApplied { id: 10, rejected: vec![id.number()] };
    let sent = receiver.try_recv().unwrap().unwrap().message;
    assert_eq!(sent, Some(wire::from_backup::Message::PartlyApplied(partly)));
    server.receive_message(replicated(&server, key, 30, part(2)), &replies).unwrap();
    let partly = wire::PartlyApplied { id: 30, rejected: vec![id.number()] };
    let sent = receiver.try_recv().unwrap().unwrap().message;
    assert_eq!(
        sent,
        Some(wire::from_backup::Message::PartlyApplied(partly)),
        "a late change of the earlier primary is rejected too"
    );
    assert_eq!(server.0.inbox.of(id).lock().queued.len(), 1);
}

/// A primary sends a complete sync of an untrained partition: its map epoch, and the last change that the contents include.
fn send_sync(server: &Server, replies: &Replies, id: PartitionId, (map_epoch, sequence): (u64, u64)) {
    let mut partition = Partition::new(&server.0.hosted.get().unwrap().layout(), id);
    let mut export = partition.start_export(SnapshotId(1), Budget::new(1 << 20));
    let send = |piece: Vec<u8>, last| {
        let (partition, piece) = (id.number(), piece.into());
        let piece = wire::SyncPiece { partition, sync_id: 7, generation: 1, sequence, map_epoch, piece, last };
        server.receive_message(wire::from_primary::Message::Piece(piece), replies).unwrap();
    };
    while let Some(piece) = partition.next_piece(&mut export).unwrap() {
        send(piece.to_bytes(), false);
    }
    send(Vec::new(), true);
}

#[test]
fn a_queued_change_that_a_sync_contains_is_acknowledged() {
    let (server, (replies, mut receiver)) = (server(), mpsc::unbounded_channel());
    let (key, id) = (5_u64, NameHash::of("t").hash_key(5).partition());
    // By map 2 this server is a backup from the start, by map 3 it is none, by map 4 it is one again. It skips to map 4.
    let part = wire::ReplicatedPart { partition: id.number(), generation: 1, sequence: 1, map_epoch: 2, sync_id: None };
    server.receive_message(replicated(&server, key, 10, part), &replies).unwrap();
    send_sync(&server, &replies, id, (3, 1));
    let mut sent = || std::iter::from_fn(|| receiver.try_recv().ok()?.unwrap().message).collect::<Vec<_>>();
    assert!(sent().iter().all(|message| matches!(message, wire::from_backup::Message::PiecesReceived(_))));
    let replicas = master::PartitionReplicas {
        primary: Some(1),
        backup: Some(0),
        generation: 1,
        primary_since: 2,
        ..master::PartitionReplicas::default()
    };
    apply_map(&server, 4, replicas);
    let (installed, applied) = (wire::SyncCompleted { partition: id.number(), sync_id: 7 }, 10);
    assert_eq!(
        sent(),
        [wire::from_backup::Message::Applied(applied), wire::from_backup::Message::Completed(installed)]
    );
    assert!(server.0.inbox.of(id).lock().queued.is_empty());
}

#[test]
fn a_partial_sync_is_dropped_with_its_primary() {
    let (server, (replies, mut receiver)) = (server(), mpsc::unbounded_channel());
    let (key, id) = (5_u64, NameHash::of("t").hash_key(5).partition());
    let mut partition = Partition::new(&server.0.hosted.get().unwrap().layout(), id);
    let mut export = partition.start_export(SnapshotId(1), Budget::new(1 << 20));
    let head = partition.next_piece(&mut export).unwrap().unwrap().to_bytes().into();
    let (partition, sync_id, generation, map_epoch) = (id.number(), 7, 1, 1);
    let piece =
        wire::SyncPiece { partition, sync_id, generation, map_epoch, piece: head, ..wire::SyncPiece::default() };
    server.receive_message(wire::from_primary::Message::Piece(piece), &replies).unwrap();
    // The partition starts a new generation on another primary, and this server is a backup from the start.
    let replicas = master::PartitionReplicas {
        primary: Some(1),
        backup: Some(0),
        generation: 2,
        primary_since: 2,
        ..master::PartitionReplicas::default()
    };
    apply_map(&server, 2, replicas);
    let part = wire::ReplicatedPart { partition, generation: 2, sequence: 1, map_epoch: 2, sync_id: None };
    server.receive_message(replicated(&server, key, 10, part), &replies).unwrap();
    let sent: Vec<_> = std::iter::from_fn(|| receiver.try_recv().ok()?.unwrap().message).collect();
    assert_eq!(sent, [wire::from_backup::Message::PiecesReceived(1), wire::from_backup::Message::Applied(10)]);
}

#[test]
fn an_installed_sync_is_dropped_when_its_sender_is_no_longer_primary() {
    let (server, (replies, _receiver)) = (server(), mpsc::unbounded_channel());
    let (id, hosted) = (PartitionId(9), server.0.hosted.get().unwrap());
    send_sync(&server, &replies, id, (1, 0));
    assert!(hosted.holds(id));
    apply_map(
        &server,
        2,
        master::PartitionReplicas {
            primary: Some(1),
            generation: 2,
            primary_since: 2,
            ..master::PartitionReplicas::default()
        },
    );
    assert!(!hosted.holds(id));
}

#[test]
fn late_pieces_of_a_former_primary_do_not_disturb_the_current_sync() {
    let (server, (replies, mut receiver)) = (server(), mpsc::unbounded_channel());
    let (id, hosted) = (PartitionId(9), server.0.hosted.get().unwrap());
    let mut partition = Partition::new(&hosted.layout(), id);
    let mut pieces = |sync_id| {
        let mut export = partition.start_export(SnapshotId(sync_id), Budget::new(1 << 20));
        let pieces = std::iter::from_fn(|| Some(partition.next_piece(&mut export).unwrap()?.to_bytes()));
        let mut pieces: Vec<(Vec<u8>, bool)> = pieces.map(|piece| (piece, false)).collect();
        pieces.push((Vec::new(), true));
        let (partition, generation, map_epoch, sequence) = (id.number(), 1, 1, 0);
        let piece = move |(piece, last): (Vec<u8>, bool)| wire::SyncPiece {
            partition,
            sync_id,
            generation,
            map_epoch,
            sequence,
            piece: piece.into(),
            last,
        };
        pieces.into_iter().map(piece).collect::<Vec<_>>()
    };
    let (late, mut latest) = (pieces(5), pieces(7));
    let end = latest.pop().unwrap();
    for piece in latest.into_iter().chain(late).chain([end]) {
        server.receive_message(wire::from_primary::Message::Piece(piece), &replies).unwrap();
    }
    let sent: Vec<_> = std::iter::from_fn(|| receiver.try_recv().ok()?.unwrap().message).collect();
    let is_completed = |one: &&wire::from_backup::Message| matches!(one, wire::from_backup::Message::Completed(installed) if installed.sync_id == 7);
    assert_eq!(sent.iter().filter(is_completed).count(), 1, "{sent:?}");
    assert!(
        sent.iter().all(|one| is_completed(&one) || *one == wire::from_backup::Message::PiecesReceived(1)),
        "{sent:?}"
    );
    assert!(hosted.holds(id));
}

#[test]
fn the_debug_output_shows_what_a_server_waits_for() {
    let (server, (replies, _receiver)) = (server(), mpsc::unbounded_channel());
    let replicas = master::PartitionReplicas {
        primary: Some(1),
        backup: Some(0),
        generation: 1,
        primary_since: 2,
        ..master::PartitionReplicas::default()
    };
    apply_map(&server, 2, replicas);
    let (key, id) = (5_u64, NameHash::of("t").hash_key(5).partition());
    let part = wire::ReplicatedPart { partition: id.number(), generation: 1, sequence: 2, map_epoch: 2, sync_id: None };
    server.receive_message(replicated(&server, key, 10, part), &replies).unwrap();
    let text = format!("{server:?}");
    assert!(text.starts_with("ps-0 by map 2\n"), "{text}");
    let replica = format!("{id}: backup by map 2 (primary since 2) at change 0 of generation 1, ");
    assert!(
        text.contains(&replica) && text.contains("change 2 of generation 1 for None is queued by map 2 (awaited)"),
        "{text}"
    );
    assert!(text.ends_with("255 idle partitions"), "{text}");
}
