//! A wish to change the size of a running job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{DnsLabel, JobName, NodeId, Rank, Resources, RoleName};

/// A scaling plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// The namespace of plan and job, where the manifest names one.
    pub namespace: Option<DnsLabel>,
    /// The job it is about.
    pub job: JobName,
    /// Who made it.
    pub origin: PlanOrigin,
    /// Roles that get another size or other resources.
    pub roles: BTreeMap<RoleName, RoleChange>,
    /// Pods to create.
    pub create: Vec<PodChange>,
    /// Pods to remove.
    pub remove: Vec<PodChange>,
    /// Pods to replace by others with other resources.
    pub migrate: Vec<PodChange>,
    /// The addresses of the parameter servers once the plan is done, where the plan fixes them.
    pub server_addresses: Vec<String>,
}

/// Who made a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanOrigin {
    /// A person.
    Manual,
    /// The job's master.
    Auto,
}

/// The new size of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleChange {
    /// How many replicas it shall have; none leaves the number as it is.
    pub replicas: Option<u32>,
    /// What new pods ask for; empty leaves it as it is.
    pub resources: Resources,
}

/// One pod that a plan names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodChange {
    /// The pod's name.
    pub name: Option<String>,
    /// Its role.
    pub role: Option<RoleName>,
    /// Its number.
    pub id: Option<NodeId>,
    /// Its rank.
    pub rank: Option<Rank>,
    /// Its address.
    pub service: Option<String>,
    /// What it asks for.
    pub resources: Resources,
}
