//! Parameter servers: their state, their services, and the client of the workers.
//!
//! Reading order: [`spec`] (the model a job declares), [`placement`] (key to partition), [`partition`] (rows, slices
//! and exactly-once updates), [`hosted`] (all partitions of a server), [`checkpoint`] (files). [`server`] and
//! [`client`] speak Flexor's own protocol; [`elasticdl`] serves the workers of ElasticDL.
//!
//! The job's master decides which server hosts which partition. This crate only carries that decision out.

pub mod batch;
mod block;
pub mod buckets;
mod call_target;
pub mod checkpoint;
pub mod client;
mod dense;
pub mod dial;
pub mod elasticdl;
pub mod hosted;
mod initial_values;
pub mod layout;
pub mod legacy_placement;
mod little_endian;
mod optimizer;
mod pace;
pub mod partition;
pub mod piece;
pub mod placement;
pub mod process_usage;
pub mod push;
pub mod server;
pub mod snapshot;
mod table;
#[cfg(test)]
mod test_support;

pub use block::BlockError;
pub use flexor_model::model_spec as spec;
