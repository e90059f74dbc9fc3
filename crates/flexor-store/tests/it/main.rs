//! The store as its clients see it: bytes over loopback sockets, and random histories.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails a test")]

mod client;
mod codec_properties;
mod hostile_clients;
mod keyspace_model;
mod many_waiters;
mod recorded;
mod recorded_agents;
mod recorded_bytes;
mod requests;
mod restoring;
mod ticks;
#[path = "../recorded/transcript.rs"]
mod transcript;
