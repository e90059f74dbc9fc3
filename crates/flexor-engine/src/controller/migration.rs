//! The record of a migration in its slot: which pod gets which successor, for which plan, and how far that is.
//!
//! The steps are in [`super::migration_steps`]. A later pass, also in another process, goes on from this record.

use flexor_model::{NodeId, Rank, Resources, RoleName, UnixTime};
use serde::{Deserialize, Serialize};

use super::status::{JobStatus, Slot};
use crate::Cause;

/// A pod gets a successor, which is created beside it and then takes its slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// The plan that asks for it. The migration is dropped with the plan.
    pub plan: String,
    /// The pod that is replaced.
    pub pod: String,
    /// The id of its successor.
    pub to: NodeId,
    /// A pod with that id was observed. If it is gone, it was lost.
    pub seen: bool,
    /// How many successors were lost before this one.
    pub lost: u32,
    /// What the pods of the slot request from then on where it differs from the role's.
    pub resources: Resources,
    /// Since when this successor is waited for.
    pub since: UnixTime,
    /// How far it is.
    pub stage: MigrationStage,
}

/// How far a migration is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MigrationStage {
    /// The successor does not run yet.
    Coming,
    /// The successor runs, and the pod still serves partitions that have to move.
    TakingOver,
    /// The successor has the slot.
    Done,
    /// There is no successor; the pod stays in its slot.
    Failed(Cause),
}

impl Migration {
    /// The id of a successor that does not have the slot yet.
    pub(super) fn successor(&self) -> Option<NodeId> {
        match self.stage {
            MigrationStage::Coming | MigrationStage::TakingOver => Some(self.to),
            MigrationStage::Done | MigrationStage::Failed(_) => None,
        }
    }
}

impl Slot {
    /// Gives the slot to the successor that is on its way. Returns whether there is one.
    pub(super) fn give_to_successor(&mut self) -> bool {
        let Some(migration) = &mut self.migration else { return false };
        let Some(to) = migration.successor() else { return false };
        migration.stage = MigrationStage::Done;
        (self.id, self.seen) = (to, migration.seen);
        self.resources = migration.resources.clone();
        true
    }
}

/// A pod by its role, rank and id.
pub type PodKey = (RoleName, Rank, NodeId);

impl JobStatus {
    /// Whether the partitions of a parameter server are to move away: its successor runs.
    pub fn is_leaving(&self, (role, rank, id): &PodKey) -> bool {
        let (holder, migration) = self.migration(role, *rank).unzip();
        holder == Some(*id) && migration.is_some_and(|migration| migration.stage == MigrationStage::TakingOver)
    }

    /// Whether a pod is to take the slot of another that still has it.
    pub fn is_successor(&self, (role, rank, id): &PodKey) -> bool {
        self.migration(role, *rank).is_some_and(|(_, migration)| migration.successor() == Some(*id))
    }

    /// The migration of a slot, with the id of the pod that has the slot.
    fn migration(&self, role: &RoleName, rank: Rank) -> Option<(NodeId, &Migration)> {
        let slot = self.roles.get(role)?.slots.get(&rank)?;
        Some((slot.id, slot.migration.as_ref()?))
    }
}
