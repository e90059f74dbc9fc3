//! What runs on a node beside the user's program: it starts, watches, logs and ends the program's processes.
//!
//! [`processes`] supervises programs of any kind. [`workers`] makes a round's worker group of them, as torchrun does, and
//! knows no master. [`launch`] takes part in a job and has workers. Command lines are parsed by the binary.

pub mod launch;
pub mod processes;
pub mod workers;
