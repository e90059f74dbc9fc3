//! The testbed's own tests. The first module of a test's path names its tier.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod child_test;
mod cluster;
mod node;
mod peers;
