//! The service of one job: its rendezvous, its keys, its journal, and the ports over which nodes, sidecars, controllers
//! and people reach them.
//!
//! Decisions are made by `flexor-engine` behind the [`AwareStore`](flexor_store::aware::AwareStore); this crate carries
//! them to the journal and to whoever has to know. A master touches no pod.

pub mod clock;
pub mod config;
pub mod data;
pub mod evaluations;
pub mod faults;
pub mod job;
pub mod journal;
pub mod master;
pub mod pods;
pub mod recorder;
pub mod records;
pub mod scores;
pub mod servers;

mod audience;
mod http;
mod metrics;
mod service;
mod standing;

pub use config::{Checkpoints, Config, NodeRange};
pub use flexor_wire::Token;
pub use master::{Master, MasterError, Ports};
