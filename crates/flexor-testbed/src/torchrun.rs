//! Stock torchrun as the nodes of a job: tests start, kill, stop and observe it.
//!
//! An [`Agent`] is one torchrun with all its descendants, which represents one node; [`AgentConfig::flexor_launch`]
//! uses `flexor launch` instead. [`Agent::kill_node`] is a real loss: no process is left to report it. All processes
//! end with the guard, and with the test process however that ends ([`node`] explains how). The worker is normally the
//! probe, whose [`ProbeEvent`]s record starts and steps; a test reads any other script by its log.
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
