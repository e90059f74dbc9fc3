//! The laptop cluster with real processes: one pod under its parent, and jobs under `flexor run`.
//!
//! Every process is owned by the test. A cluster is `--ephemeral` but where the test is about its end, and then a guard
//! ends its pods by their ids.

pub mod cluster;
mod endings;
mod interrupts;
mod kills;
mod pod;
mod resume;
