//! The testbed's own tests. The first module name is the tier that a test belongs to.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;
mod peers;
