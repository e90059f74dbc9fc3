//! Everything a controller can have done: the closed list of what an executor carries out.

use std::collections::BTreeMap;

use flexor_model::{NodeId, Quantity, Rank, Resources, RoleName};
use serde::{Deserialize, Serialize};

use super::{JobStatus, PlanStatus};
use crate::Cause;

/// Something to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Write the status of the job; nothing after this is done if it cannot be written.
    SetStatus(Box<JobStatus>),
    /// Write the status of a plan.
    SetPlanStatus {
        /// Which.
        plan: String,
        /// What.
        status: PlanStatus,
    },
    /// Make a pod.
    CreatePod(Box<DesiredPod>),
    /// End a pod and remove it.
    DeletePod {
        /// Which.
        name: String,
        /// Which life of it.
        uid: String,
        /// Why.
        cause: Cause,
    },
    /// Make a service.
    CreateService(DesiredService),
    /// Remove a service.
    DeleteService {
        /// Which.
        name: String,
    },
    /// Tell people something.
    Record(Event),
    /// Remove the job itself.
    DeleteJob {
        /// Why.
        cause: Cause,
    },
}

/// A pod to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DesiredPod {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: RoleName,
    /// The number in its name.
    pub id: NodeId,
    /// Its place in the role.
    pub rank: Rank,
    /// How often that place was filled before.
    pub relaunches: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How many replicas each role is to have now.
    pub replicas: BTreeMap<RoleName, u32>,
    /// What its main container asks for, where it is not what the template says.
    pub resources: Resources,
    /// The memory of its main container, where an end for want of memory has made it more than the template and
    /// [`resources`](Self::resources) say.
    pub memory: Option<Quantity>,
    /// Why it is made.
    pub cause: Cause,
}

/// A service to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredService {
    /// Its name.
    pub name: String,
    /// The role whose pods it stands before.
    pub role: RoleName,
    /// The labels of those pods.
    pub selector: BTreeMap<String, String>,
}

/// Something that people should see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// About a pod; else about the job.
    pub pod: Option<String>,
    /// What, and why.
    pub cause: Cause,
}
