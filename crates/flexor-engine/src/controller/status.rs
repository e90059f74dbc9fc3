//! What must not be forgotten of a job: written down before it is acted upon.

use std::collections::BTreeMap;

use flexor_model::{NodeId, Quantity, Rank, Resources, RoleName, UnixTime};
use serde::{Deserialize, Serialize};

use super::migration::Migration;
use crate::Cause;
use crate::nodes::NodeHistory;

/// The status of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// How far it is.
    pub phase: Phase,
    /// Why it is so far and not further.
    pub cause: Option<Cause>,
    /// When the controller first saw it.
    pub created_at: Option<UnixTime>,
    /// When its first worker ran.
    pub started_at: Option<UnixTime>,
    /// When it was over.
    pub finished_at: Option<UnixTime>,
    /// Since when its master has given the program up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up_at: Option<UnixTime>,
    /// Since when fewer of its nodes run than it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_since: Option<UnixTime>,
    /// The one place that says how large each role is to be.
    pub targets: BTreeMap<RoleName, Target>,
    /// Who sits where.
    pub roles: BTreeMap<RoleName, RoleStatus>,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// None of its workers has run yet.
    #[default]
    Pending,
    /// Some of them run, or have.
    Running,
    /// It waits until its user wants it to go on.
    Suspended,
    /// It has done its work.
    Succeeded,
    /// It cannot do it.
    Failed,
}

/// How large a role is to be, and who says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// How many.
    pub replicas: u32,
    /// What new pods ask for, where it is not what the template says.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    /// Who set it.
    pub set_by: SetBy,
    /// The generation of the job whose size was last taken over.
    pub generation: u64,
    /// What the job said then, to know whether that has changed.
    pub spec_replicas: u32,
    /// Why.
    pub cause: Cause,
}

/// Who set the size of a role. A person's word pins it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SetBy {
    /// The job's own description.
    Spec,
    /// A plan of this name.
    Plan(String),
}

/// The seats of a role.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleStatus {
    /// The lowest number that no pod of the role has had.
    pub next_id: u32,
    /// How many failures of the whole role were counted.
    pub counted: u32,
    /// Who sits where.
    pub slots: BTreeMap<Rank, Slot>,
}

/// One place in a role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Slot {
    /// The number of the pod that is in it, or will be.
    pub id: NodeId,
    /// That pod was seen, so that its number is used up.
    #[serde(default)]
    pub seen: bool,
    /// How often the place was filled again.
    #[serde(default)]
    pub relaunches: u32,
    /// What the rules for its next end need to know.
    #[serde(default)]
    pub history: NodeHistory,
    /// What an end for want of memory has made of the memory of its pods, which only grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_memory: Option<Quantity>,
    /// The unique id of the last pod whose end was taken note of: it counts once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<String>,
    /// What a plan has the pods of this place ask for, where it is not what those of the role do.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    /// The pod in it is to have a successor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
    /// Nobody takes the place before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<UnixTime>,
    /// Nobody takes it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<SlotEnd>,
}

/// How a place came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotEnd {
    /// Its work is done.
    pub succeeded: bool,
    /// The job cannot do without it.
    pub fails_job: bool,
    /// Why.
    pub cause: Cause,
}

/// How far a plan is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanStatus {
    /// How far.
    pub phase: PlanPhase,
    /// Why.
    pub cause: Option<Cause>,
    /// When it was over.
    pub finished_at: Option<UnixTime>,
}

/// How far a plan is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanPhase {
    /// Others are before it.
    #[default]
    Pending,
    /// It is carried out.
    Scaling,
    /// It is done.
    Succeeded,
    /// It cannot be done.
    Failed,
}

impl Phase {
    /// Whether nothing more will happen.
    pub fn is_over(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

impl PlanPhase {
    /// Whether nothing more will happen.
    pub fn is_over(self) -> bool {
        matches!(self, PlanPhase::Succeeded | PlanPhase::Failed)
    }
}

impl Slot {
    /// A place that nobody has been in.
    pub(super) fn new(id: NodeId) -> Self {
        Self {
            id,
            seen: false,
            relaunches: 0,
            history: NodeHistory::default(),
            more_memory: None,
            settled: None,
            resources: Resources::default(),
            migration: None,
            not_before: None,
            end: None,
        }
    }

    /// The memory of its next pod, where an end for want of it has made it more than is asked for.
    pub(super) fn grown_memory(&self, asked: Option<Quantity>) -> Option<Quantity> {
        self.more_memory.filter(|more| asked.is_none_or(|asked| *more > asked))
    }
}
