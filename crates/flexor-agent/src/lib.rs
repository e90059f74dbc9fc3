//! What runs on a node beside the user's program: its processes are started, watched, logged and ended here.
//!
//! [`processes`] supervises programs of any kind; [`workers`] makes those of one round of them, as torchrun does, and
//! knows no master; [`launch`] takes part in a job and has workers. Command lines are the binary's.

pub mod launch;
pub mod processes;
pub mod workers;
