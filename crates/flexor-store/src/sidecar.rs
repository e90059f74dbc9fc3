//! The sidecar of a pod: a proxy that keeps torchrun's store connections alive while the master restarts or moves.
//!
//! ```text
//! torchrun ── TCPStore, loopback ──▶ Server ─▶ Relay ─▶ link ── StoreLink, gRPC ──▶ master
//! ```
//!
//! A TCPStore client never reconnects: it fails with its connection. So the [`Relay`] keeps every request until the master
//! has answered it, and the link reconnects to the master for ever. The loss of a master only delays clients. The relay
//! is a state machine without sockets; [`Sidecar`] runs it. Only the master interprets requests.

mod known_keys;
mod link;
mod relay;
mod run;
mod undurable_results;

#[cfg(test)]
mod simulated_master;
#[cfg(test)]
mod tests;

pub use self::{
    link::MAX_LINK_MESSAGE,
    relay::{LinkFault, Pod, Relay},
    run::{Sidecar, SidecarEnd},
};
