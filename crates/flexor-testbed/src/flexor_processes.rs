//! Flexor's own processes around a job of stock torchruns: the master, and a node with its sidecar.
//!
//! The program is given as a file, so that what is started is what users start; this crate never links it. A
//! [`JobNode`] is one node as a pod has it, torchrun and sidecar, and is lost or hangs as one. All of it ends with the
//! guards, and with the process that holds them, as [`crate::torchrun`] tells. What a master decided is asked of it over
//! its `/api`, as people do; [`TwoNetworks`] is for cutting a node off.

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
