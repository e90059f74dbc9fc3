//! Supervised programs, in this very process: whoever supervises takes over all children of its process, so that these
//! tests cannot share one with those that start launchers (`tests/it`). They run at the same time as each other, each
//! with programs of its own, and none may touch another's.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails a test")]

mod endings;
mod mounts;
mod notes;
mod output;
mod starting;
#[path = "../it/waiting.rs"]
mod waiting;
