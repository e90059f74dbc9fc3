//! Real processes, under a launcher that is a process of its own (`tests/programs/launcher.rs`).
#![expect(clippy::unwrap_used, reason = "whatever fails here fails a test")]

mod await_condition;
mod commands;
mod corpus;
mod failures;
mod launch;
mod launcher_gone;
mod output;
mod scenario;
mod termination;
