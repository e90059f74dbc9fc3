//! Plans for tests: a model of one small table, and maps of its partitions.

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

/// `ps-0`, without a plan.
pub(super) fn server() -> (Server, Reports) {
    Server::new(ServerName { name: "ps-0".to_owned(), incarnation: 1 }, None)
}

pub(super) fn named(name: &str) -> master::Server {
    let (name, address) = (name.to_owned(), "127.0.0.1:1".to_owned());
    master::Server { name, incarnation: 1, address }
}

/// Replicas whose primary is `ps-0` or `ps-1` since the first map.
pub(super) fn primary_is(server: u32) -> master::PartitionReplicas {
    master::PartitionReplicas {
        primary: Some(server),
        generation: 1,
        primary_since: 1,
        ..master::PartitionReplicas::default()
    }
}

/// A map in which every partition has these replicas.
pub(super) fn map(epoch: u64, replicas: master::PartitionReplicas) -> master::PartitionMap {
    master::PartitionMap {
        epoch,
        servers: vec![named("ps-0"), named("ps-1")],
        partitions: vec![replicas; PARTITIONS],
        model: serde_json::to_string(&model()).unwrap(),
        ..master::PartitionMap::default()
    }
}

/// A plan with nothing but a map.
pub(super) fn plan(map: master::PartitionMap) -> master::ServerPlan {
    master::ServerPlan { map: Some(map), ..master::ServerPlan::default() }
}
