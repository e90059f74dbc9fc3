//! The job side: the options of a job checked against each other, and the neutral job made from them.

mod job_options;
mod naming;
mod rules;
mod template;
mod to_job;

pub use job_options::{JobKind, JobOptions, JobType};
pub use naming::WORKER_PORT;
