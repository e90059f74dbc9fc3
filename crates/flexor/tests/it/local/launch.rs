//! `flexor launch` with real processes: programs of `sh`, launchers alone or at a master, and whatever can happen to
//! each of them. No torch: that is the peers tier.
//!
//! A program that is to go on only when the test says so waits for a file ([`folder::Folder::let_go`]).

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
mod worlds;
