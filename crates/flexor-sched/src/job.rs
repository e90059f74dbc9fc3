//! The input of the planner: the jobs that it sizes.

use std::collections::BTreeSet;

use flexor_model::{Rank, RoleName, UnixTime};
use serde::{Deserialize, Serialize};

use crate::{JobKey, NodeName, PodShape};

/// A job that the planner sizes, or holds until it fits. A job that has ended is no input any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizedJob {
    pub key: JobKey,
    /// Its priority: among jobs whose base is missing, the higher one is placed first.
    pub priority: i32,
    /// Its creation: among equal priorities the older one is placed first.
    pub created: UnixTime,
    /// Its roles. The least replicas of all of them are its base, which starts whole or not at all.
    pub roles: Vec<SizedRole>,
    /// Whether it may not grow at present: it backs off after surplus that did not start, or its end is near.
    pub growth_paused: bool,
}

/// A role of a job. Ranks below `min` are base, the others surplus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizedRole {
    pub name: RoleName,
    /// The least replicas.
    pub min: u32,
    /// The most replicas, at least `min`. A role of a fixed size has `max == min`.
    pub max: u32,
    /// What each pod needs.
    pub pod: PodShape,
    /// The replicas of the target as it was written last; 0 before the first. Finished ranks count.
    pub target: u32,
    /// Ranks whose program has ended well, and which need no pod any more.
    pub finished: BTreeSet<Rank>,
}

/// Room on a node that is kept for one pod until pods that are ending there are gone.
///
/// A driver keeps promises with the target in the job's status, so that the next leader goes on with them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Promise {
    pub job: JobKey,
    /// The role of the pod.
    pub role: RoleName,
    /// The rank of the pod. Promises below the role's minimum belong to a gang and are redeemed together.
    pub rank: Rank,
    pub node: NodeName,
}
