//! The verbs of another terminal, against laptop clusters with real processes.

mod describe;
pub mod laptop;
mod logs;
mod refusals;
mod requests;
mod state_dirs;
mod tables;
mod watch;
