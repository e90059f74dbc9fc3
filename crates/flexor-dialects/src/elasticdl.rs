//! The `elasticdl` command line: `zoo`, `train`, `evaluate` and `predict` with all their options.
//!
//! [`parse`] takes the arguments of three releases of ElasticDL and gives a typed [`Command`], or everything that is
//! wrong with them; [`JobOptions::to_job`] turns the options of a job into the neutral [`Job`](flexor_model::Job).
//! The options stand in one table, spread over the groups in `options`, from which parsing, printing back and help
//! follow.
//!
//! Nothing is submitted, built or read from disk here.

mod command_line;
mod job;
mod options;
#[cfg(test)]
mod tests;
mod values;

pub use command_line::{Command, CommandName, Parsed, args_of_bytes, help, parse};
pub use job::{JobKind, JobOptions, JobType, WORKER_PORT};
pub use options::{
    Arity, DataOptions, Fate, Generation, IgnoredOptions, ModelOptions, OptionSpec, PodOptions, Presence,
    SubmissionOptions, TrainingOptions, ZooInitOptions,
};
pub use values::{
    AuxParams, ClusterSpec, DistributionStrategy, Envs, Fraction, ImagePullPolicy, LogLevel, Params, PodAdditions,
    PodPriority, ResourceString, RestartPolicy, Variable, VolumeMount, VolumeSource, Volumes, WorkerPriority,
};

/// The name of this dialect.
pub const NAME: &str = "elasticdl";
