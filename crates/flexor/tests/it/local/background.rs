//! `flexor local`: a cluster in the background, with real processes.
//!
//! A guard ends it, and its pods, by their ids.

mod cluster;
mod deep_state_dirs;
mod kills;
mod lifecycle;
mod shutdown;
