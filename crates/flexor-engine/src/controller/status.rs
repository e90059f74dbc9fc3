//! What must not be forgotten of a job: written before anything that depends on it is done.
//!
//! This is the form in which decisions are made. [`encoding`] is the form in which it is stored.

mod encoding;
mod rank_runs;

use std::collections::{BTreeMap, BTreeSet};

use flexor_model::{IdRule, NodeId, Quantity, Rank, Resources, RoleName, UnixTime};
use serde::{Deserialize, Serialize};

pub use self::encoding::{StatusError, StoredStatus};
use super::migration::Migration;
use crate::Cause;
use crate::nodes::NodeHistory;

/// The status of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "StoredStatus", try_from = "StoredStatus")]
pub struct JobStatus {
    /// How far the job is.
    pub phase: Phase,
    /// Why it is in this phase, or what keeps it there.
    pub cause: Option<Cause>,
    /// When the controller first saw the job.
    pub created_at: Option<UnixTime>,
    /// When its first worker ran.
    pub started_at: Option<UnixTime>,
    /// When it succeeded or failed.
    pub finished_at: Option<UnixTime>,
    /// Since when its master has given the program up.
    pub given_up_at: Option<UnixTime>,
    /// Since when fewer of its pods run than it needs.
    pub short_since: Option<UnixTime>,
    /// The target replicas of each role. No other place says them.
    pub targets: BTreeMap<RoleName, Target>,
    /// The replica slots of each role.
    pub roles: BTreeMap<RoleName, RoleStatus>,
    /// The last changes of targets by the cluster's planner, oldest first.
    pub size_changes: Vec<SizeChange>,
}

/// A change of a target by the cluster's planner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SizeChange {
    pub at: UnixTime,
    pub role: RoleName,
    pub from: u32,
    pub to: u32,
    /// Why, with its numbers.
    pub message: String,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// None of its workers has run.
    #[default]
    Pending,
    /// Some of its workers run or have run.
    Running,
    /// Its user holds it back; none of its pods runs.
    Suspended,
    /// Its program ended well.
    Succeeded,
    /// It cannot go on.
    Failed,
}

/// The target replicas of a role, and who set them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// How many replicas the role should have.
    pub replicas: u32,
    /// What new pods request where it differs from the template.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
    /// Who set the target.
    pub set_by: SetBy,
    /// The generation of the job whose replicas were last taken over.
    pub generation: u64,
    /// The replicas in that generation, to notice an edit.
    pub spec_replicas: u32,
    /// How many replicas a person wants, in a job that the cluster's planner places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<u32>,
    /// Ranks below the highest that have no pod: the planner gives up pods by their nodes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty", with = "rank_runs")]
    pub vacant: BTreeSet<Rank>,
    /// Nodes on which room is kept for further ranks until other pods are gone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub promised: BTreeMap<Rank, String>,
    /// Why the role has this target.
    pub cause: Cause,
}

/// Who set the target of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SetBy {
    /// The job's description, as it was first seen.
    Spec,
    /// An edit of the job's description.
    Edit,
    /// The plan of this name, which a person made.
    Plan(String),
    /// The plan of this name, which the job's master made.
    Auto(String),
    /// The cluster's planner.
    Planner,
}

/// The replica slots of a role.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoleStatus {
    /// The lowest id that no pod of the role has had.
    pub next_id: u32,
    /// How many failures of the role are charged, where the role has one budget.
    pub counted: u32,
    /// The slots by rank.
    pub slots: BTreeMap<Rank, Slot>,
}

/// One numbered position of a role, which one pod after the other fills.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// The id of the pod that fills the slot, or of the next one.
    pub id: NodeId,
    /// A pod with this id was observed. If it is gone, it was lost.
    pub seen: bool,
    /// How often the slot was filled again.
    pub relaunches: u32,
    /// What the relaunch rules remember.
    pub history: NodeHistory,
    /// The memory that the next pod gets after one ran out of memory; it only grows.
    pub more_memory: Option<Quantity>,
    /// The uid of the last pod whose end was decided upon, so that it counts once. None once the slot has ended.
    pub settled: Option<String>,
    /// What a plan has the pods of this slot request where it differs from the role's.
    pub resources: Resources,
    /// The pod in the slot is to get a successor.
    pub migration: Option<Migration>,
    /// The slot stays empty until then.
    pub not_before: Option<UnixTime>,
    /// The slot is not filled again.
    pub end: Option<SlotEnd>,
}

/// Why a slot is not filled again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotEnd {
    /// Its program ended well.
    pub succeeded: bool,
    /// The job cannot do without it.
    pub fails_job: bool,
    /// What ended it.
    pub cause: Cause,
}

/// The status of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanStatus {
    /// How far the plan is.
    pub phase: PlanPhase,
    /// Why it is in this phase.
    pub cause: Option<Cause>,
    /// When it succeeded or failed.
    pub finished_at: Option<UnixTime>,
}

/// How far a plan is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanPhase {
    /// Other plans come first.
    #[default]
    Pending,
    /// Its targets are set, and its pods are on their way.
    Scaling,
    /// All pods are as it says.
    Succeeded,
    /// It was refused, superseded, or could not be carried out.
    Failed,
}

impl Phase {
    /// Whether the phase is final.
    pub fn is_over(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

impl Target {
    /// The ranks that have a pod.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        (0..self.end()).map(Rank).filter(|rank| !self.vacant.contains(rank))
    }

    /// Whether a rank has a pod.
    pub fn has(&self, rank: Rank) -> bool {
        rank.0 < self.end() && !self.vacant.contains(&rank)
    }

    fn end(&self) -> u32 {
        self.replicas.saturating_add(u32::try_from(self.vacant.len()).unwrap_or(u32::MAX))
    }
}

impl SetBy {
    /// Whether a person has decided since the job began; automatic sizing leaves the role alone.
    pub fn is_by_hand(&self) -> bool {
        matches!(self, SetBy::Edit | SetBy::Plan(_))
    }
}

impl PlanPhase {
    /// Whether the phase is final.
    pub fn is_over(self) -> bool {
        matches!(self, PlanPhase::Succeeded | PlanPhase::Failed)
    }
}

impl Slot {
    /// A slot that no pod has filled.
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

    /// Whether nothing is decided wrongly if the slot is taken for what it was `before`. Which pods were seen is seen
    /// again. Where a replacement has the name of the pod that it replaces, it makes no difference either whether a loss
    /// was noted before or after the replacement was created: losses cost nothing. An id, however, is written before a
    /// pod has it, and so is whatever counts.
    pub(super) fn follows_from(&self, before: &Self, ids: IdRule) -> bool {
        let mut slot = before.clone();
        slot.seen = self.seen;
        if self.not_before.is_none() {
            slot.not_before = None;
        }
        match ids {
            IdRule::Rank => (slot.settled, slot.relaunches) = (self.settled.clone(), self.relaunches),
            IdRule::Increasing if self.settled.is_none() => slot.settled = None,
            IdRule::Increasing => {}
        }
        slot == *self
    }

    /// Ends the slot: no pod fills it again.
    pub(super) fn finish(&mut self, end: SlotEnd) {
        // No end of a pod is decided upon any more, and unlike uids ends are alike, so they are stored as one row.
        (self.settled, self.end) = (None, Some(end));
    }

    /// The memory of the next pod, where it grew beyond what is requested.
    pub(super) fn grown_memory(&self, requested: Option<Quantity>) -> Option<Quantity> {
        self.more_memory.filter(|more| requested.is_none_or(|requested| *more > requested))
    }
}
