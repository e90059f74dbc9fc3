//! Everything that the controller can have done: the closed list of what an executor carries out.

use std::collections::BTreeMap;

use flexor_model::{NodeId, Quantity, Rank, Resources, RoleName};
use serde::{Deserialize, Serialize};

use super::{JobStatus, Place, PlanStatus};
use crate::Cause;

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Write the status of the job. Actions after it depend on it.
    SetStatus(Box<JobStatus>),
    /// The status has changed so little that nothing depends on it: a process that dies before it is written notices the
    /// same again. It is shown to the next pass, and written with the next [`SetStatus`](Self::SetStatus) or when there
    /// is time.
    NoteStatus(Box<JobStatus>),
    /// Write the status of a plan.
    SetPlanStatus {
        /// The plan's name.
        plan: String,
        /// Its status from now on.
        status: PlanStatus,
    },
    /// Create a pod.
    CreatePod(Box<DesiredPod>),
    /// End a pod and remove it.
    DeletePod {
        /// The pod's name.
        name: String,
        /// The incarnation that is meant; a later one stays.
        uid: String,
        /// Remove it at once, although its node cannot say that its containers have ended.
        force: bool,
        /// Why it goes.
        cause: Cause,
    },
    /// Create a service.
    CreateService(DesiredService),
    /// Remove a service.
    DeleteService {
        /// The service's name.
        name: String,
    },
    /// Record an event for people.
    Record(Event),
    /// Record that a pod was lost whose slot is filled again at once. The event about its replacement may say so
    /// instead.
    RecordLoss {
        /// What happened.
        event: Event,
        /// The role of the slot.
        role: RoleName,
        /// The slot.
        rank: Rank,
    },
    /// Remove the job itself.
    DeleteJob {
        /// Why it goes.
        cause: Cause,
    },
}

/// A pod to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DesiredPod {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: RoleName,
    /// The number in its name.
    pub id: NodeId,
    /// The slot that it fills.
    pub rank: Rank,
    /// How often that slot was filled before.
    pub relaunches: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The target replicas of each role at this moment.
    pub replicas: BTreeMap<RoleName, u32>,
    /// What its main container requests where it differs from the template.
    pub resources: Resources,
    /// It is limited to them.
    pub is_limited: bool,
    /// The memory of its main container, where it grew beyond the template and [`resources`](Self::resources).
    pub memory: Option<Quantity>,
    /// Where it is created, if the cluster's planner says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Why it is created.
    pub cause: Cause,
}

/// A service to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredService {
    /// Its name.
    pub name: String,
    /// The role whose pods it selects.
    pub role: RoleName,
    /// The labels that select them.
    pub selector: BTreeMap<String, String>,
}

/// Something that happened to a job or to one of its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The pod that it is about; without one it is about the job.
    pub pod: Option<String>,
    /// What happened, and why.
    pub cause: Cause,
}
