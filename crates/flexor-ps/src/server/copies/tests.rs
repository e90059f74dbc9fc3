//! What a copy may cost who takes it in.

use flexor_wire::master::v1 as master;

use super::incoming::MAX_BACKLOG;
use super::*;
use crate::partition::Partition;
use crate::placement::NameHash;
use crate::server::testing::{self, owned_by};
use crate::snapshot::{Budget, SnapshotId};

/// `ps-0`, which knows that `ps-1` has everything.
fn server() -> Server {
    let (server, _) = testing::server();
    hears(&server, 1, owned_by(1));
    server
}

/// A server hears by this map that every partition is so. Each beginning of the partitions is another life of `ps-1`.
fn hears(server: &Server, epoch: u64, seat: master::Seat) {
    let mut map = testing::map(epoch, seat);
    map.servers[1].incarnation = seat.origin;
    server.plan(&testing::plan(map)).unwrap();
}

/// An owner has applied a push that is about one key.
fn applied(server: &Server, key: u64, id: u64, part: wire::AppliedPart) -> wire::from_owner::Message {
    let rows = wire::RowGradients { table: 0, keys: key.to_le_bytes().to_vec().into(), gradients: vec![0; 4].into() };
    let model = server.0.hosted.get().unwrap().layout().fingerprint().0;
    let push = wire::Push { model, rows: vec![rows], ..wire::Push::default() };
    wire::from_owner::Message::Applied(wire::Applied { id, parts: vec![part], push: Some(push) })
}

#[test]
fn a_copy_is_given_up_when_training_changes_it_faster_than_it_comes() {
    let (server, (answers, mut told)) = (server(), mpsc::unbounded_channel());
    let (key, id) = (5_u64, NameHash::of("t").place(5).partition());
    let layout = server.0.hosted.get().unwrap().layout();
    let mut partition = Partition::new(&layout, id);
    let mut copy = partition.begin_copy(SnapshotId(1), Budget::new(1 << 20));
    let head = partition.next_piece(&mut copy).unwrap().unwrap().to_bytes().into();
    let piece = wire::CopyPiece {
        partition: id.number(),
        copy: 7,
        origin: 1,
        map: 1,
        piece: head,
        ..wire::CopyPiece::default()
    };
    server.take(wire::from_owner::Message::Piece(piece), &answers).unwrap();

    let applied = |number| {
        let part = wire::AppliedPart { partition: id.number(), origin: 1, number, map: 1, copy: Some(7) };
        applied(&server, key, number, part)
    };
    server.take(applied(1), &answers).unwrap();
    assert_eq!(server.0.copies.of(id).lock().waiting.len(), 1, "it waits for the rest of the copy");
    let many = Room::take(&server.0.copies.backlog, MAX_BACKLOG);
    server.take(applied(2), &answers).unwrap();
    drop(many);
    server.take(applied(3), &answers).unwrap();

    let incoming = server.0.copies.of(id).lock();
    assert!(incoming.coming.is_none() && incoming.waiting.is_empty(), "nothing of it is kept");
    assert_eq!(server.0.copies.backlog.load(std::sync::atomic::Ordering::Relaxed), 0);
    drop(answers);
    let mut said = Vec::new();
    while let Some(Ok(wire::FromCopy { message: Some(message) })) = told.blocking_recv() {
        said.push(message);
    }
    use wire::from_copy::Message as Said;
    let [
        Said::Taken(1),
        Said::Applied(1),
        Said::Applied(2) | Said::Refused(_),
        Said::Refused(_) | Said::Applied(2),
        Said::Applied(3),
    ] = &said[..]
    else {
        panic!("{said:?}")
    };
    let refused = said.iter().find_map(|one| if let Said::Refused(refused) = one { Some(refused) } else { None });
    assert_eq!(refused.map(|refused| refused.copy), Some(7));
}

#[test]
fn an_owner_whose_change_another_owner_has_taken_the_place_of_is_told_so() {
    let (server, (answers, mut told)) = (server(), mpsc::unbounded_channel());
    let seat = master::Seat { owner: Some(1), backup: Some(0), origin: 1, since: 2, ..master::Seat::default() };
    hears(&server, 2, seat);
    let (key, id) = (5_u64, NameHash::of("t").place(5).partition());
    // The first change is still on its way, and the second has to wait for it.
    let part = |map| wire::AppliedPart { partition: id.number(), origin: 1, number: 2, map, copy: None };
    server.take(applied(&server, key, 10, part(2)), &answers).unwrap();
    assert!(told.try_recv().is_err(), "its turn has not come");
    server.take(applied(&server, key, 20, part(3)), &answers).unwrap();
    let in_part = wire::AppliedInPart { number: 10, without: vec![id.number()] };
    let said = told.try_recv().unwrap().unwrap().message;
    assert_eq!(said, Some(wire::from_copy::Message::InPart(in_part)));
    server.take(applied(&server, key, 30, part(2)), &answers).unwrap();
    let in_part = wire::AppliedInPart { number: 30, without: vec![id.number()] };
    let said = told.try_recv().unwrap().unwrap().message;
    assert_eq!(said, Some(wire::from_copy::Message::InPart(in_part)), "one that is late has the place no more");
    assert_eq!(server.0.copies.of(id).lock().waiting.len(), 1);
}

/// An owner sends all of a copy that nobody has trained: the map by which it owns it, and the last change that is in it.
fn send_copy(server: &Server, answers: &Answers, id: PartitionId, (map, number): (u64, u64)) {
    let mut partition = Partition::new(&server.0.hosted.get().unwrap().layout(), id);
    let mut copy = partition.begin_copy(SnapshotId(1), Budget::new(1 << 20));
    let send = |piece: Vec<u8>, last| {
        let (partition, piece) = (id.number(), piece.into());
        let piece = wire::CopyPiece { partition, copy: 7, origin: 1, number, map, piece, last };
        server.take(wire::from_owner::Message::Piece(piece), answers).unwrap();
    };
    while let Some(piece) = partition.next_piece(&mut copy).unwrap() {
        send(piece.to_bytes(), false);
    }
    send(Vec::new(), true);
}

#[test]
fn a_change_that_is_in_a_copy_is_waited_for_no_more() {
    let (server, (answers, mut told)) = (server(), mpsc::unbounded_channel());
    let (key, id) = (5_u64, NameHash::of("t").place(5).partition());
    // By map 2 this server keeps a copy from the start, by map 3 none, by map 4 another one. It hears of the last only.
    let part = wire::AppliedPart { partition: id.number(), origin: 1, number: 1, map: 2, copy: None };
    server.take(applied(&server, key, 10, part), &answers).unwrap();
    send_copy(&server, &answers, id, (3, 1));
    let mut said = || std::iter::from_fn(|| told.try_recv().ok()?.unwrap().message).collect::<Vec<_>>();
    assert!(said().iter().all(|message| matches!(message, wire::from_copy::Message::Taken(_))));
    let seat = master::Seat { owner: Some(1), backup: Some(0), origin: 1, since: 2, ..master::Seat::default() };
    hears(&server, 4, seat);
    let (whole, applied) = (wire::CopyWhole { partition: id.number(), copy: 7 }, 10);
    assert_eq!(said(), [wire::from_copy::Message::Applied(applied), wire::from_copy::Message::Whole(whole)]);
    assert!(server.0.copies.of(id).lock().waiting.is_empty());
}

#[test]
fn what_is_here_of_a_copy_goes_with_the_owner_that_sends_it() {
    let (server, (answers, mut told)) = (server(), mpsc::unbounded_channel());
    let (key, id) = (5_u64, NameHash::of("t").place(5).partition());
    let mut partition = Partition::new(&server.0.hosted.get().unwrap().layout(), id);
    let mut copy = partition.begin_copy(SnapshotId(1), Budget::new(1 << 20));
    let head = partition.next_piece(&mut copy).unwrap().unwrap().to_bytes().into();
    let (partition, copy, origin, map) = (id.number(), 7, 1, 1);
    let piece = wire::CopyPiece { partition, copy, origin, map, piece: head, ..wire::CopyPiece::default() };
    server.take(wire::from_owner::Message::Piece(piece), &answers).unwrap();
    // It begins again elsewhere, and this server keeps a copy from the start.
    let seat = master::Seat { owner: Some(1), backup: Some(0), origin: 2, since: 2, ..master::Seat::default() };
    hears(&server, 2, seat);
    let part = wire::AppliedPart { partition, origin: 2, number: 1, map: 2, copy: None };
    server.take(applied(&server, key, 10, part), &answers).unwrap();
    let said: Vec<_> = std::iter::from_fn(|| told.try_recv().ok()?.unwrap().message).collect();
    assert_eq!(said, [wire::from_copy::Message::Taken(1), wire::from_copy::Message::Applied(10)]);
}

#[test]
fn a_copy_that_nobody_wants_goes_when_its_sender_is_not_the_owner_any_more() {
    let (server, (answers, _told)) = (server(), mpsc::unbounded_channel());
    let (id, hosted) = (PartitionId(9), server.0.hosted.get().unwrap());
    send_copy(&server, &answers, id, (1, 0));
    assert!(hosted.holds(id));
    hears(&server, 2, master::Seat { owner: Some(1), origin: 2, since: 2, ..master::Seat::default() });
    assert!(!hosted.holds(id));
}

#[test]
fn what_a_former_owner_sends_late_does_not_disturb_the_copy_that_comes() {
    let (server, (answers, mut told)) = (server(), mpsc::unbounded_channel());
    let (id, hosted) = (PartitionId(9), server.0.hosted.get().unwrap());
    let mut partition = Partition::new(&hosted.layout(), id);
    let mut pieces = |copy| {
        let mut of = partition.begin_copy(SnapshotId(copy), Budget::new(1 << 20));
        let pieces = std::iter::from_fn(|| Some(partition.next_piece(&mut of).unwrap()?.to_bytes()));
        let mut pieces: Vec<(Vec<u8>, bool)> = pieces.map(|piece| (piece, false)).collect();
        pieces.push((Vec::new(), true));
        let (partition, origin, map, number) = (id.number(), 1, 1, 0);
        let piece = move |(piece, last): (Vec<u8>, bool)| wire::CopyPiece {
            partition,
            copy,
            origin,
            map,
            number,
            piece: piece.into(),
            last,
        };
        pieces.into_iter().map(piece).collect::<Vec<_>>()
    };
    let (late, mut latest) = (pieces(5), pieces(7));
    let end = latest.pop().unwrap();
    for piece in latest.into_iter().chain(late).chain([end]) {
        server.take(wire::from_owner::Message::Piece(piece), &answers).unwrap();
    }
    let said: Vec<_> = std::iter::from_fn(|| told.try_recv().ok()?.unwrap().message).collect();
    let is_whole =
        |one: &&wire::from_copy::Message| matches!(one, wire::from_copy::Message::Whole(whole) if whole.copy == 7);
    assert_eq!(said.iter().filter(is_whole).count(), 1, "{said:?}");
    assert!(said.iter().all(|one| is_whole(&one) || *one == wire::from_copy::Message::Taken(1)), "{said:?}");
    assert!(hosted.holds(id));
}

#[test]
fn a_server_tells_what_it_waits_for() {
    let (server, (answers, _told)) = (server(), mpsc::unbounded_channel());
    let seat = master::Seat { owner: Some(1), backup: Some(0), origin: 1, since: 2, ..master::Seat::default() };
    hears(&server, 2, seat);
    let (key, id) = (5_u64, NameHash::of("t").place(5).partition());
    let part = wire::AppliedPart { partition: id.number(), origin: 1, number: 2, map: 2, copy: None };
    server.take(applied(&server, key, 10, part), &answers).unwrap();
    let told = format!("{server:?}");
    assert!(told.starts_with("ps-0 by map 2\n"), "{told}");
    let waits = format!("{id}: backup by map 2 (owned since 2) at change 0 of beginning 1, ");
    assert!(
        told.contains(&waits) && told.contains("change 2 of beginning 1 for None waits by map 2 (awaited)"),
        "{told}"
    );
    assert!(told.ends_with("255 partitions where nothing is under way"), "{told}");
}
