//! Supervision: starts programs, watches them, logs their output and ends them, one by one or all together.
//!
//! [`Processes::start`] starts a [`Program`] through the [`Shim`] under a key that the caller chooses. Exits come out of
//! [`Processes::next_exit`]. [`Processes::end`] and [`Processes::end_all`] send signals until no descendant is left,
//! daemons included. One process of ours may hold any number of [`Processes`].
//!
//! Callers decide whether to start a program again. Ranks and error files belong to [`crate::workers`].

mod environment;
mod exit;
mod keeper;
mod output;
mod process_tag;
mod program;
mod program_lookup;
mod reaper;
mod shim;
mod snapshot;
mod supervisor;
mod termination;
mod tree;
mod view;

pub use environment::{Environment, EnvironmentChanges};
pub use exit::{ExitOutcome, ProcessExit};
pub use keeper::{Keeper, kill_orphans_of, run_keeper};
pub use output::{FailureWatch, LogCut, LogFile, Output, PrintedCause, PrintedFailure, Rotation, Traceback};
pub use program::{Input, Program};
pub use program_lookup::{ProgramError, find_program};
pub use shim::{Shim, ShimError, exec_shim};
pub use supervisor::{ProcessKey, Processes, StartError};
pub use termination::{Ladder, Termination};
pub use tree::Process;
pub use view::Mount;
