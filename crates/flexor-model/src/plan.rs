//! A wish to change the size of a running job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{DnsLabel, JobName, NodeId, ObjectName, Rank, Resources, RoleName};

/// A scaling plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Its name.
    pub name: ObjectName,
    /// The namespace of plan and job, where the manifest names one.
    pub namespace: Option<DnsLabel>,
    /// The job it is about.
    pub job: JobName,
    /// Who made it.
    pub origin: PlanOrigin,
    /// Roles that get another size or other resources.
    pub roles: BTreeMap<RoleName, RoleChange>,
    /// Pods to create.
    pub create: Vec<CreatePod>,
    /// Pods to remove.
    pub remove: Vec<ObjectName>,
    /// Pods to replace by others with other resources.
    pub migrate: Vec<MigratePod>,
    /// The addresses of the parameter servers once the plan is done, where the plan fixes them.
    pub server_addresses: Vec<String>,
}

/// Who made a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PlanOrigin {
    /// A person.
    Manual,
    /// The job's master.
    Auto,
}

/// The new size of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleChange {
    /// How many replicas it shall have; none leaves the number as it is.
    pub replicas: Option<u32>,
    /// What new pods ask for; empty leaves it as it is.
    pub resources: Resources,
}

/// A pod to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatePod {
    /// Its role.
    pub role: RoleName,
    /// Its name, where the plan fixes it.
    pub name: Option<ObjectName>,
    /// Its number, where the plan fixes it.
    pub id: Option<NodeId>,
    /// Its rank, where the plan fixes it.
    pub rank: Option<Rank>,
    /// Its address, where the plan fixes it.
    pub service: Option<String>,
    /// What it asks for; empty is what the role asks for.
    pub resources: Resources,
}

/// A pod to replace by another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigratePod {
    /// The pod.
    pub pod: ObjectName,
    /// What its successor asks for; empty is the same.
    pub resources: Resources,
}
