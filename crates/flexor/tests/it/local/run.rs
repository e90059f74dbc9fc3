//! The laptop cluster with real processes: one pod under its parent, and jobs under `flexor run`.
//!
//! Every process is owned by the test. A cluster is `--ephemeral` but where the test is about its end, and then a guard
//! ends its pods by their ids.

mod admission;
mod chaos;
mod checkpoints;
pub mod cluster;
mod data_files;
mod endings;
mod evaluation;
mod interrupts;
mod kills;
mod log_disk;
mod memory;
mod model;
mod objects;
mod plans;
mod pod;
mod ps_report;
pub mod quickstart;
mod refusals;
mod rendered_pods;
mod report;
mod resume;
mod servers;
mod synchronous;
mod terminal;
mod view;
mod volumes;
