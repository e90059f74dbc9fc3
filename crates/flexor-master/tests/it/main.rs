//! A whole master over real sockets, as nodes, sidecars, controllers and people meet it.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod control;
mod corpus;
mod data;
mod http;
mod link;
mod servers;
mod serving;
mod sessions;
mod takeover;
