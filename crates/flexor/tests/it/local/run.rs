//! Tests of the laptop cluster with real processes: one pod under its supervisor, and jobs under `flexor run`.
//!
//! Each process is owned by its test. A cluster is `--ephemeral` unless the test is about its end; then a guard ends
//! its pods by process id.

mod admission;
mod chaos;
mod checkpoints;
pub mod cluster;
mod damaged_files;
mod data_files;
mod endings;
mod evaluation;
pub mod failure_matrix;
mod full_disks;
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
mod sharing;
mod surprises;
mod synchronous;
mod terminal;
mod tokens;
mod view;
mod volumes;
