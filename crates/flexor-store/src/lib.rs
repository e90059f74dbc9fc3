//! A c10d TCPStore server, the store that understands torchrun's rendezvous keys, and the sidecar that relays to it.

pub mod codec;
pub mod keyspace;
pub mod rendezvous_store;
pub mod server;
pub mod service;
pub mod sidecar;
pub mod state;
