//! What options can hold: for each type of value the grammar it is written in, read and printed back.

mod choice;
mod cluster_spec;
mod envs;
mod params;
mod priority;
mod resource_string;
mod value;
mod volume;

pub use choice::{DistributionStrategy, ImagePullPolicy, LogLevel, RestartPolicy};
pub use cluster_spec::{ClusterSpec, PodAdditions, Variable};
pub use envs::Envs;
pub use params::{AuxParams, Params};
pub use priority::{Fraction, PodPriority, WorkerPriority};
pub use resource_string::ResourceString;
pub(super) use value::OptionValue;
pub use volume::{VolumeMount, VolumeSource, Volumes};
