//! The master of one job: its rendezvous, its keys, its journal, and the ports for nodes, sidecars, controllers and people.
//!
//! `flexor-engine` decides. The [`JobState`](job_state::JobState) owns the rendezvous of the job and journals every
//! decision before it is published; the TCPStore adapter of `flexor-store` and the native gRPC API are its front ends. A
//! master never touches a pod.

pub mod clock;
pub mod config;
pub mod data;
pub mod evaluations;
pub mod faults;
pub mod job;
pub mod job_state;
pub mod journal;
pub mod journal_loss;
pub mod master;
pub mod pods;
pub mod recorder;
pub mod records;
pub mod run_status;
pub mod scores;
pub mod servers;

mod http;
mod metrics;
mod report_delivery;
mod service;
mod sizing;
mod training_status;

pub use config::{Checkpoints, Config, LossPolicy, NodeRange};
pub use flexor_wire::Token;
pub use master::{Master, MasterError, Ports};
