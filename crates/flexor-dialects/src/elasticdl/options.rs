//! The options of every `elasticdl` command, in groups: what the model is, what it is trained on, how, in which pods,
//! what the client itself does, the model zoo, and options that are accepted and ignored.
//!
//! This is the union of the releases in [`Generation`]. Defaults are those of 0.2.0rc2 where it has the option.

mod data;
mod group;
mod ignored;
mod model;
mod pods;
mod spec;
mod submission;
mod training;
mod zoo;

pub use data::DataOptions;
pub use ignored::IgnoredOptions;
pub use model::ModelOptions;
pub use pods::PodOptions;
pub use spec::{Arity, Fate, Generation, OptionSpec, Presence};
pub use submission::SubmissionOptions;
pub use training::TrainingOptions;
pub use zoo::{ZooBuildOptions, ZooInitOptions};

use super::command_line::CommandName;

/// The commands that submit a job.
const JOBS: &[CommandName] = &[CommandName::Train, CommandName::Evaluate, CommandName::Predict];
const TRAIN: &[CommandName] = &[CommandName::Train];
