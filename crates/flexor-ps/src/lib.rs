//! Parameter servers: what they keep, how they serve it, and how a client finds it.
//!
//! Start reading at [`spec`] (what a job trains), [`placement`] (where things live), [`partition`] (what moves together
//! and how updates are applied once), [`hosted`] (all partitions of a server) and [`checkpoint`] (how they are kept).
//! [`server`] and [`client`] speak our own wire, [`elasticdl`] that of ElasticDL's workers.

mod addressee;
pub mod batch;
mod block;
pub mod buckets;
pub mod checkpoint;
pub mod client;
mod dense;
pub mod dial;
pub mod elasticdl;
pub mod hosted;
mod initial;
pub mod layout;
pub mod legacy_placement;
mod little_endian;
mod optimizer;
mod pace;
pub mod partition;
pub mod piece;
pub mod placement;
pub mod push;
pub mod server;
pub mod snapshot;
mod spans;
pub mod spec;
mod table;
#[cfg(test)]
mod testing;

pub use block::BlockError;
