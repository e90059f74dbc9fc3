//! Supervision: programs started, watched, logged and ended, one by one or all together.
//!
//! The flow: [`Processes::start`] starts a [`Program`] through the [`Shim`] under a key of the caller's, exits come out
//! of [`Processes::next_exit`], and [`Processes::end`] or [`Processes::end_all`] walks down the signal ladder until no
//! descendant is left, daemons included. Any number of [`Processes`] may live in one process of ours.
//!
//! Whether to start something again is the caller's to decide; ranks and error files are [`crate::workers`]' concern.

mod ending;
mod environment;
mod exit;
mod keeper;
mod lineage;
mod look;
mod lookup;
mod output;
mod program;
mod reaper;
mod shim;
mod supervised;
mod tree;
mod view;

pub use ending::{Ending, Ladder};
pub use environment::{Environment, EnvironmentChanges};
pub use exit::{Outcome, ProcessExit};
pub use keeper::{Keeper, keep, kill_what_they_left};
pub use lookup::{ProgramError, find_program};
pub use output::{LogCut, LogFile, Output, Rotation};
pub use program::{Input, Program};
pub use shim::{NotStarted, Shim, exec_shim};
pub use supervised::{ProcessKey, Processes, StartError};
pub use tree::Process;
pub use view::Mount;
