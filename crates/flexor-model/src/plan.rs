//! A plan: a requested change to the size or the resources of a running job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{DnsLabel, JobName, NodeId, ObjectName, Rank, Resources, RoleName};

/// A scaling plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The name of its object.
    pub name: ObjectName,
    /// The namespace of plan and job, where the manifest names one.
    pub namespace: Option<DnsLabel>,
    /// The job that it changes.
    pub job: JobName,
    /// Who created it.
    pub origin: PlanOrigin,
    /// Roles that get other target replicas or resources.
    pub roles: BTreeMap<RoleName, RoleChange>,
    /// Pods to create.
    pub create: Vec<CreatePod>,
    /// Pods to remove.
    pub remove: Vec<ObjectName>,
    /// Pods to replace by others with other resources.
    pub migrate: Vec<MigratePod>,
    /// A person's plan that leaves the sizes of its roles to automatic sizing again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gives_back: bool,
    /// What it is for, in the words of whoever made it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The addresses of the parameter servers once the plan is done, where the plan fixes them.
    pub server_addresses: Vec<String>,
}

/// Who created a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PlanOrigin {
    /// A person.
    Manual,
    /// The job's master.
    Auto,
}

/// The new target of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleChange {
    /// Its target replicas; none leaves them as they are.
    pub replicas: Option<u32>,
    /// What new pods request; empty leaves it as it is.
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
    /// Its id, where the plan fixes it.
    pub id: Option<NodeId>,
    /// Its rank, where the plan fixes it.
    pub rank: Option<Rank>,
    /// Its address, where the plan fixes it.
    pub service: Option<String>,
    /// What it requests; empty is what the role requests.
    pub resources: Resources,
}

/// A pod to migrate: a successor takes its slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigratePod {
    /// The pod's name.
    pub pod: ObjectName,
    /// What its successor requests; empty is what the pod requests.
    pub resources: Resources,
}
