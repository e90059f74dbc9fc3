//! The dialects: manifests and command lines of four systems, turned into the neutral job.
//!
//! One folder per dialect holds everything its users know: the types and schemas of their manifests, what a missing
//! field means, which combinations are refused, how pods, services, labels and variables are called, and how statuses and
//! events are worded. Beside them stands what all share: reading manifests ([`manifest`]), pod templates, resources, the
//! job's master.
//!
//! Adding a dialect is a folder here and a line in [`kinds`] and [`dialect`]. Nothing in this crate talks to a cluster.

pub mod dlrover;
pub mod edl;
pub mod elasticdl;
pub mod launch_options;
pub mod manifest;
pub mod torchelastic;
pub mod torchrun_env;

mod command_hints;
mod conditions;
mod crd_yaml;
mod dialect;
mod events;
mod finding;
mod flexor_options;
mod job_status;
mod kind;
mod master;
mod object_meta;
mod pod_fields;
mod pod_template;
mod program;
mod resource_hints;
mod schema;
mod suggest;
mod vocabulary;
mod wire_resources;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub use conditions::JobCondition;
pub use crd_yaml::crd_yaml;
pub use dialect::{Dialect, PlanStatusInput, WrittenStatus, dialect};
pub use events::{EventInput, EventText};
pub use finding::{Finding, Position};
pub use flexor_options::{CheckpointOptions, FlexorOptions};
pub use job_status::{PodCounts, StatusInput, TargetStatus};
pub use kind::{DEFINITION_LABEL, Kind, Reading};
pub use pod_template::{Container, EnvVar, PodSpec, PodTemplate};
pub use suggest::closest;
pub use wire_resources::{ResourceList, ResourceRequirements, WireQuantity};

/// Every kind of manifest, dialect by dialect.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    dlrover::KINDS.iter().chain(&torchelastic::KINDS).chain(&edl::KINDS)
}

/// The definitions of every kind, each with the dialect it belongs to.
pub fn crds() -> Vec<(&'static str, CustomResourceDefinition)> {
    kinds().map(|kind| (kind.dialect, kind.crd())).collect()
}
