//! Tests that need the program. The first module of a test's path names its tier.

#![expect(clippy::unwrap_used, reason = "whatever fails here fails a test")]

mod cluster;
mod condition;
mod listings;
mod local;
mod model;
mod node;
mod page;
mod peers;
mod program;
