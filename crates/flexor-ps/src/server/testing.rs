//! What a master tells the servers of tests: a model of one small table, and who keeps its partitions.

use flexor_wire::master::v1 as master;

use super::{Reports, Server, ServerName};
use crate::placement::PARTITIONS;
use crate::spec::{Initializer, ModelSpec, Optimizer, TableSpec};

pub(super) fn model() -> ModelSpec {
    ModelSpec {
        variables: Vec::new(),
        tables: vec![TableSpec { name: "t".to_owned(), dim: 1, init: Initializer::Zeros }],
        optimizer: Optimizer::sgd(1.0),
        seed: 1,
    }
}

/// `ps-0`, which has heard nothing yet.
pub(super) fn server() -> (Server, Reports) {
    Server::new(ServerName { name: "ps-0".to_owned(), incarnation: 1 }, None)
}

pub(super) fn named(name: &str) -> master::Server {
    let (name, address) = (name.to_owned(), "127.0.0.1:1".to_owned());
    master::Server { name, incarnation: 1, address }
}

/// A seat whose owner, `ps-0` or `ps-1`, has had it from the beginning.
pub(super) fn owned_by(server: u32) -> master::Seat {
    master::Seat { owner: Some(server), origin: 1, since: 1, ..master::Seat::default() }
}

/// Every partition is so.
pub(super) fn map(epoch: u64, seat: master::Seat) -> master::ServerMap {
    master::ServerMap {
        epoch,
        servers: vec![named("ps-0"), named("ps-1")],
        seats: vec![seat; PARTITIONS],
        model: serde_json::to_string(&model()).unwrap(),
        ..master::ServerMap::default()
    }
}

/// A plan with nothing but a map.
pub(super) fn plan(map: master::ServerMap) -> master::ServerPlan {
    master::ServerPlan { map: Some(map), ..master::ServerPlan::default() }
}
