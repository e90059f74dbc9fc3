//! What runs on a node beside the user's program: its processes are started, watched, logged and ended here.
//!
//! [`workers`] knows processes and no master; [`launch`] takes part in a job and has workers. Command lines are the
//! binary's.

pub mod launch;
pub mod workers;
