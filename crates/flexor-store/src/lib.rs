//! A c10d TCPStore server.

pub mod aware;
pub mod codec;
pub mod keyspace;
pub mod server;
pub mod service;
pub mod sidecar;
pub mod state;
