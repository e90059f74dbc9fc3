//! What is written down of a pod that is to have a successor in its place.
//!
//! It stands with the place, and only there: whoever looks next, in this process or in another, knows which number the
//! successor has, how far it is, and for which plan. How it goes on is decided in [`super::migrating`].

use flexor_model::{NodeId, Rank, Resources, RoleName, UnixTime};
use serde::{Deserialize, Serialize};

use super::status::{JobStatus, Slot};
use crate::Cause;

/// A pod moves: another is made beside it, and then takes its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// The plan that wants it. It is forgotten with the plan.
    pub plan: String,
    /// The pod that is to go.
    pub pod: String,
    /// The number of its successor.
    pub to: NodeId,
    /// That successor was seen, so that its number is used up.
    pub seen: bool,
    /// How many successors were lost before this one.
    pub lost: u32,
    /// What the pods of the place ask for from then on, where it is not what those of the role do.
    pub resources: Resources,
    /// Since when a successor is waited for.
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
    /// The successor runs, and the pod still keeps parameters that it has to give away.
    TakingOver,
    /// The successor has the place.
    Done,
    /// Nobody will take the place; the pod stays in it.
    Failed(Cause),
}

impl Migration {
    /// The number of a successor that does not have the place yet.
    pub(super) fn successor(&self) -> Option<NodeId> {
        match self.stage {
            MigrationStage::Coming | MigrationStage::TakingOver => Some(self.to),
            MigrationStage::Done | MigrationStage::Failed(_) => None,
        }
    }
}

impl Slot {
    /// A successor that is on its way has the place from now on. Whether there is one.
    pub(super) fn give_to_successor(&mut self) -> bool {
        let Some(migration) = &mut self.migration else { return false };
        let Some(to) = migration.successor() else { return false };
        migration.stage = MigrationStage::Done;
        (self.id, self.seen) = (to, migration.seen);
        self.resources = migration.resources.clone();
        true
    }
}

/// A pod, by its role, its place in it, and its number.
pub type Placed = (RoleName, Rank, NodeId);

impl JobStatus {
    /// Whether a parameter server is to give away what it keeps: its successor is there to take it.
    pub fn is_leaving(&self, (role, rank, id): &Placed) -> bool {
        let (holder, migration) = self.migration(role, *rank).unzip();
        holder == Some(*id) && migration.is_some_and(|migration| migration.stage == MigrationStage::TakingOver)
    }

    /// Whether a pod is to take the place of another that still has it.
    pub fn is_successor(&self, (role, rank, id): &Placed) -> bool {
        self.migration(role, *rank).is_some_and(|(_, migration)| migration.successor() == Some(*id))
    }

    /// What is going on in a place, with the number of the pod that has it.
    fn migration(&self, role: &RoleName, rank: Rank) -> Option<(NodeId, &Migration)> {
        let slot = self.roles.get(role)?.slots.get(&rank)?;
        Some((slot.id, slot.migration.as_ref()?))
    }
}
