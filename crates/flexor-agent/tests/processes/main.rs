//! Supervised programs in this test process. A supervisor takes over all children of its process, so these tests cannot
//! share a process with those that start launchers (`tests/it`). They run concurrently, each with its own programs, and
//! none may touch another's.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails a test")]

#[path = "../it/await_condition.rs"]
mod await_condition;
mod mounts;
mod notes;
mod output;
mod start;
mod termination;
