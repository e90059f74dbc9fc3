//! The `elasticdl` command line: `zoo`, `train`, `evaluate` and `predict` with all their options.
//!
//! [`parse`] takes the arguments of three releases of ElasticDL and gives a typed [`Command`], or everything that is
//! wrong with them; [`JobOptions::to_job`] turns the options of a job into the neutral [`Job`](flexor_model::Job).
//! The options stand in one table, spread over the groups in `options`, from which parsing, printing back and help
//! follow.
//!
//! Nothing is submitted, built or read from disk here.

mod abbreviation;
mod argv;
mod choice;
mod cluster_spec;
mod command;
mod envs;
mod given;
mod help;
mod job_options;
mod naming;
mod object_name;
mod option;
mod option_group;
mod options;
mod params;
mod parse;
mod priority;
mod resource_string;
mod rules;
mod slip;
mod template;
#[cfg(test)]
mod tests;
mod to_job;
mod value;
mod volume;

pub use choice::{DistributionStrategy, ImagePullPolicy, LogLevel, RestartPolicy};
pub use cluster_spec::{ClusterSpec, PodAdditions, Variable};
pub use command::{Command, CommandName};
pub use envs::Envs;
pub use help::help;
pub use job_options::{JobKind, JobOptions, JobType};
pub use naming::{MASTER_PORT, PS_PORT, WORKER_PORT};
pub use option::{Arity, Fate, Generation, OptionSpec, Presence};
pub use options::{
    DataOptions, IgnoredOptions, ModelOptions, PodOptions, SubmissionOptions, TrainingOptions, ZooInitOptions,
};
pub use params::{AuxParams, Params};
pub use parse::{Parsed, args_of_bytes, parse};
pub use priority::{Fraction, PodPriority, WorkerPriority};
pub use resource_string::ResourceString;
pub use volume::{VolumeMount, VolumeSource, Volumes};

/// What jobs of this dialect say they are.
pub const DIALECT: &str = "elasticdl";
