//! `flexor operator` as a process in the network of a test cluster, under the service account of its overlay.

mod faults;
mod guard;
mod jobs;

pub use guard::{Operator, turn};
