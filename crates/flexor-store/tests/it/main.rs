//! The store from the outside: bytes over loopback sockets, and random histories.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails a test")]

mod client;
mod codec_properties;
mod hostile_clients;
mod keyspace_model;
mod many_waiters;
mod owner;
mod recorded;
mod recorded_agents;
mod recorded_bytes;
mod requests;
mod restore;
mod ticks;
#[path = "../recorded/transcript.rs"]
mod transcript;
