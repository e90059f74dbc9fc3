//! Tests of the commands for a running laptop cluster, with real processes.

mod describe;
pub mod laptop;
mod logs;
mod refusals;
mod requests;
mod state_dirs;
mod tables;
mod watch;
