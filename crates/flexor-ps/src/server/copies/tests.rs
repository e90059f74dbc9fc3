//! What a copy may cost who takes it in.

use flexor_wire::master::v1 as master;

use super::incoming::MAX_BACKLOG;
use super::*;
use crate::partition::Partition;
use crate::placement::{NameHash, PARTITIONS};
use crate::server::ServerName;
use crate::snapshot::{Budget, SnapshotId};
use crate::spec::{Initializer, ModelSpec, Optimizer, TableSpec};

/// `ps-0`, which knows that `ps-1` has everything.
fn server() -> Server {
    let (server, _) = Server::new(ServerName { name: "ps-0".to_owned(), incarnation: 1 }, None);
    has_everything(&server, 1, 1);
    server
}

/// A server hears by this map that so has a life of `ps-1`, which is new to it.
fn has_everything(server: &Server, epoch: u64, life: u64) {
    let model = ModelSpec {
        variables: Vec::new(),
        tables: vec![TableSpec { name: "t".to_owned(), dim: 2, init: Initializer::Zeros }],
        optimizer: Optimizer::sgd(1.0),
        seed: 1,
    };
    let server_of = |name: &str, incarnation| {
        let name = name.to_owned();
        master::Server { name, incarnation, ..master::Server::default() }
    };
    let map = master::ServerMap {
        epoch,
        servers: vec![server_of("ps-0", 1), server_of("ps-1", life)],
        seats: vec![master::Seat { owner: Some(1), origin: life, since: epoch, ..master::Seat::default() }; PARTITIONS],
        model: serde_json::to_string(&model).unwrap(),
        ..master::ServerMap::default()
    };
    server.plan(&master::ServerPlan { map: Some(map), ..master::ServerPlan::default() }).unwrap();
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

    let rows = wire::RowGradients { table: 0, keys: key.to_le_bytes().to_vec().into(), gradients: vec![0; 8].into() };
    let push = wire::Push { model: layout.fingerprint().0, rows: vec![rows], ..wire::Push::default() };
    let applied = |number| {
        let part = wire::AppliedPart { partition: id.number(), origin: 1, number, map: 1, copy: Some(7) };
        let (parts, push) = (vec![part], Some(push.clone()));
        wire::from_owner::Message::Applied(wire::Applied { id: number, parts, push })
    };
    server.take(applied(1), &answers).unwrap();
    assert_eq!(server.0.copies.of(id).lock().waiting.len(), 1, "it waits for the rest of the copy");
    let many = Room::take(&server.0.copies.backlog, MAX_BACKLOG);
    server.take(applied(2), &answers).unwrap();
    drop(many);
    server.take(applied(3), &answers).unwrap();

    let incoming = server.0.copies.of(id).lock();
    assert!(incoming.arriving.is_none() && incoming.waiting.is_empty(), "nothing of it is kept");
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
fn a_copy_that_nobody_wants_goes_when_its_sender_is_not_the_owner_any_more() {
    let (server, (answers, _told)) = (server(), mpsc::unbounded_channel());
    let (id, hosted) = (PartitionId(9), server.0.hosted.get().unwrap());
    let mut partition = Partition::new(&hosted.layout(), id);
    let mut copy = partition.begin_copy(SnapshotId(1), Budget::new(1 << 20));
    let send = |piece: Vec<u8>, last| {
        let (partition, piece) = (id.number(), piece.into());
        let piece =
            wire::CopyPiece { partition, copy: 7, origin: 1, map: 1, piece, last, ..wire::CopyPiece::default() };
        server.take(wire::from_owner::Message::Piece(piece), &answers).unwrap();
    };
    while let Some(piece) = partition.next_piece(&mut copy).unwrap() {
        send(piece.to_bytes(), false);
    }
    send(Vec::new(), true);
    assert!(hosted.holds(id));
    has_everything(&server, 2, 2);
    assert!(!hosted.holds(id));
}
