//! Tests of `flexor local`: a background cluster with real processes.
//!
//! A guard ends the cluster and its pods by process id.

pub mod cluster;
mod deep_state_dirs;
mod kills;
mod lifecycle;
mod shutdown;
