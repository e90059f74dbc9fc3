//! What the planner of the cluster assigns to a job: which ranks of each role have a pod, and on which node.
//!
//! Only the planner sees all jobs and all nodes. A job that it plans has exactly the ranks of its assignment, and the
//! controller creates a pod only where the assignment has a place for it: a pod without one would wait for room that the
//! planner has promised to others.

use std::collections::{BTreeMap, BTreeSet};

use flexor_model::{Rank, Role, RoleName};
use serde::{Deserialize, Serialize};

use super::Reconciler;
use crate::Cause;

/// Who decides about the replicas of a job.
#[derive(Debug, Clone, Copy, Default)]
pub enum Planning<'a> {
    /// Its description and its plans.
    #[default]
    Unplanned,
    /// The cluster's planner, which has not decided yet. The replicas stay as they are.
    Undecided,
    /// The cluster's planner.
    Assigned(&'a JobAssignment),
}

/// What the planner assigns to a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobAssignment {
    /// Why pods that the job cannot do without are missing.
    pub held: Option<Cause>,
    /// The roles; one that is missing has no pods.
    pub roles: BTreeMap<RoleName, RoleAssignment>,
}

/// What the planner assigns to a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleAssignment {
    /// The ranks that have a pod, or whose work is done.
    pub ranks: BTreeSet<Rank>,
    /// Where pods of these ranks are created. A rank without a place and without a pod waits for the planner.
    pub places: BTreeMap<Rank, Place>,
    /// The nodes on which room is kept for further ranks until other pods are gone.
    pub promised: BTreeMap<Rank, String>,
    /// The uids of pods that end although their rank stays: their node is gone or closed.
    pub moved: BTreeSet<String>,
    /// Why the role has so many pods.
    pub cause: Option<Cause>,
}

/// The place of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The node.
    pub node: String,
    /// The job cannot do without the pod, so it may also run on another node.
    pub is_base: bool,
}

impl Reconciler<'_> {
    /// Where a pod of a slot may be created: anywhere, at a place, or nowhere yet.
    pub(super) fn place(&self, role: &Role, rank: Rank) -> Result<Option<Place>, Unplaced> {
        match self.observed.planning {
            Planning::Unplanned => Ok(None),
            Planning::Undecided => Err(Unplaced),
            Planning::Assigned(assignment) => {
                let place = assignment.roles.get(&role.name).and_then(|role| role.places.get(&rank));
                place.cloned().map(Some).ok_or(Unplaced)
            }
        }
    }

    /// Whether the planner wants this pod ended although its slot stays.
    pub(super) fn is_moved(&self, role: &Role, uid: &str) -> bool {
        let Planning::Assigned(assignment) = self.observed.planning else { return false };
        assignment.roles.get(&role.name).is_some_and(|role| role.moved.contains(uid))
    }

    /// Why the planner holds the job, if it does.
    pub(super) fn held(&self) -> Option<&Cause> {
        match self.observed.planning {
            Planning::Assigned(assignment) => assignment.held.as_ref(),
            Planning::Unplanned | Planning::Undecided => None,
        }
    }
}

/// The planner has no place for the pod yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unplaced;
