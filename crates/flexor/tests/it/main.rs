//! Tests that need the program. The first word of a test's path is the tier it belongs to.

#![expect(clippy::unwrap_used, reason = "whatever fails here fails a test")]

mod cluster;
mod listings;
mod local;
mod peers;
mod program;
