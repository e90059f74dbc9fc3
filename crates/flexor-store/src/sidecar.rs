//! The proxy inside a pod that keeps torchrun's store connection alive while the master restarts or moves.
//!
//! ```text
//! torchrun ── TCPStore, loopback ──▶ Server ─▶ Relay ─▶ link ── StoreLink, gRPC ──▶ master
//! ```
//!
//! A TCPStore client never connects again: it dies with its connection. So the [`Relay`] keeps every request until the
//! master has answered it, and the link dials the master again for ever. A lost master alone costs clients a pause.
//! The relay decides and has no sockets; [`Sidecar`] gives it some. What requests mean is known to the master alone.

mod kept_results;
mod link;
mod relay;
mod run;
mod seen_keys;

#[cfg(test)]
mod simulated_master;
#[cfg(test)]
mod tests;

pub use self::{
    link::MAX_LINK_MESSAGE,
    relay::{LinkFault, Pod, Relay},
    run::{Ended, Sidecar},
};
