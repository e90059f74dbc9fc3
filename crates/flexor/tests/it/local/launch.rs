//! Tests of `flexor launch` with real processes: shell programs, and launchers alone or at a master. The peers tier has
//! the tests with torch.
//!
//! A program that must wait for the test waits for a file ([`folder::Folder::let_go`]).

mod awkward_programs;
mod blame;
mod daemons;
mod endings;
mod environment;
mod failures;
mod fenced_nodes;
pub mod folder;
pub mod job;
mod jobs;
mod killed_launchers;
pub mod launcher;
mod logs;
mod losses;
mod master_losses;
mod root_causes;
mod signals;
mod tokens;
mod usage;
pub mod worlds;
