//! The decisions of a job's master and of the controller, as pure code: events and a time go in, facts with their
//! reasons come out.
//!
//! Nothing here does I/O, reads a clock or knows about the network. The same code therefore runs in the master, in
//! simulations over thousands of seeds and in fault-injection tests.

pub mod controller;
pub mod evaluation;
pub mod ledger;
pub mod nodes;
pub mod pod_status;
pub mod ps_membership;
pub mod render;
pub mod rendezvous;
pub mod scaling;

mod active_clock;
mod cause;
#[cfg(test)]
mod dice;
mod natural_order;

pub use cause::Cause;
