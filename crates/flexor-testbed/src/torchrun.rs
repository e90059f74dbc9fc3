//! Stock torchrun as the nodes of a job: started, killed, stopped and listened to.
//!
//! An [`Agent`] is one torchrun with everything below it, standing for one node; `flexor launch` can stand in its
//! place ([`AgentConfig::flexor_launch`]). Its loss is real: [`Agent::kill_node`] leaves nobody who could say goodbye.
//! All of it ends with the guard, and with the test process however that ends: [`node`] tells how. The worker is
//! normally the probe, whose [`ProbeEvent`]s say when workers were started and when they made steps; any other script
//! works too and is read by its log.
//!
//! The calls block. A test on a runtime that also serves the agents needs the multi-threaded one.

mod agent;
mod events;
pub(crate) mod node;
mod process_tree;
mod store;
mod workers;

pub use self::{
    agent::{Agent, AgentConfig, free_port},
    events::{ProbeEvent, ProbeEventKind},
    store::StockStore,
    workers::Workers,
};
