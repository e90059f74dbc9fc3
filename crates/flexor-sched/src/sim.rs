//! A model of the published EDL experiments, second by second, with the policies that compete in them.
//!
//! The model is the one that reproduces the published runs: 133 nodes, a scheduler that spreads pods and binds 25 a
//! second, pods that run three seconds after they are bound, and deletion that takes a grace period. It knows CPU only,
//! and has no latency of watches. Policies differ in the sizes of jobs and in the scheduler's queue; everything else
//! is the same code. A run is deterministic: there is no chance in it.

mod autoscaler;
mod cluster;
mod experiment;
mod planned;
mod report;
mod scheduler;
mod simulation;
#[cfg(test)]
mod tests;

pub use experiment::{Experiment, JobShape, OnlineService, Policy, Submission};
pub use report::{JobReport, Report, Sample, Step};

/// Runs an experiment from its first second to its last.
pub fn run(experiment: &Experiment) -> Report {
    simulation::Simulation::new(experiment).run()
}
