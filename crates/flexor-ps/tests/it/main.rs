//! Integration tests of parameter servers, their master and their clients over real sockets.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod checkpoints;
mod client_timeouts;
mod cluster;
mod elasticdl;
mod exactly_once;
mod gate;
mod move_phases;
mod push_pull;
mod requests;
mod simulation;
mod snapshots;
mod unknown_outcomes;
