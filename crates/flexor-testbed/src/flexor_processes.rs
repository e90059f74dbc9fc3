//! Flexor's own processes around a job of stock torchruns: the master, and nodes with their sidecars.
//!
//! The caller gives the program as a file, so that tests start what users start; this crate never links it. A
//! [`JobNode`] is one node as a pod has it, torchrun and sidecar, which are lost or hang together. All processes end
//! with their guards and with the process that holds them (see [`crate::torchrun`]). Tests read a master's decisions
//! from its `/api`. [`TwoNetworks`] cuts a node off.

mod api;
mod job_node;
mod master;
mod service;
mod sidecar;
mod two_networks;

pub use self::{
    api::{Decision, Member, RunStatus, StatusCause},
    job_node::JobNode,
    master::{Master, MasterConfig},
    sidecar::Sidecar,
    two_networks::{Namespace, TwoNetworks},
};
