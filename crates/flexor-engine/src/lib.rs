//! The decisions of a job's master, as plain code: events and a time go in, facts with their reasons come out.
//!
//! Nothing here does I/O, reads a clock or knows that a network exists, so that the same code runs in the master, in
//! simulations over thousands of seeds and in the tests that inject every fault we can name.

pub mod controller;
pub mod evaluation;
pub mod nodes;
pub mod pod_status;
pub mod psmembers;
pub mod render;
pub mod rendezvous;
pub mod shards;

mod absence;
mod cause;
#[cfg(test)]
mod dice;
mod natural_order;

pub use cause::Cause;
