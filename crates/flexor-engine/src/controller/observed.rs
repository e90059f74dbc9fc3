//! What is there: the job as its user wants it, and everything that exists of it.

use std::collections::BTreeSet;

use flexor_model::{DnsLabel, Job, JobUid, NodeId, Plan, Rank, RoleName, UnixTime};

use super::{JobStatus, PlanStatus};
use crate::{Cause, nodes};

/// One job and all that exists of it.
#[derive(Debug)]
pub struct ObservedJob<'a> {
    /// What its user wants.
    pub job: &'a Job,
    /// Counts the changes of that.
    pub generation: u64,
    /// Its unique id.
    pub uid: &'a JobUid,
    /// The namespace it runs in.
    pub namespace: &'a DnsLabel,
    /// Its user has deleted it.
    pub deleting: bool,
    /// What was written down last.
    pub status: &'a JobStatus,
    /// All its pods, also those that have ended.
    pub pods: &'a [ObservedPod],
    /// The names of its services.
    pub services: &'a BTreeSet<String>,
    /// The plans about it, whether they are done or not.
    pub plans: &'a [ObservedPlan],
    /// Its parameter servers that are to leave and keep nothing any more, as its master says.
    pub released: &'a BTreeSet<String>,
    /// Why its programs cannot meet any more, as its master says.
    pub closed: Option<&'a Cause>,
}

/// A pod.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedPod {
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
    /// Its role.
    pub role: RoleName,
    /// The number in its name.
    pub id: NodeId,
    /// Its place in the role.
    pub rank: Rank,
    /// How far it is.
    pub phase: PodPhase,
    /// Somebody has deleted it; it is going.
    pub deleting: bool,
    /// What keeps it from being started, where something does.
    pub pending: Option<Cause>,
    /// How it ended; looked at once it has.
    pub end: nodes::ObservedExit,
    /// When its main program began to run.
    pub started_at: Option<UnixTime>,
    /// When it ended.
    pub finished_at: Option<UnixTime>,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    /// Not all of it has started.
    Pending,
    /// It runs.
    Running,
    /// Its main program has ended well.
    Succeeded,
    /// It has ended otherwise.
    Failed,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedPlan {
    /// What it wants.
    pub plan: Plan,
    /// When it was made.
    pub created_at: UnixTime,
    /// How far it is.
    pub status: PlanStatus,
}

impl ObservedPod {
    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }
}
