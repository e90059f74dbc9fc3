//! What exists: the job as its user describes it, and everything that was observed of it.
//!
//! What a world owes the controller:
//! - `status` and the status of plans contain everything that this controller wrote. A pass that was decided on an older
//!   status is thrown away, not carried out.
//! - Pods and services may lag behind. A later pass never sees an older state of them than an earlier one.
//! - Creating what exists is done if this job owns it and it is not terminating; else the pass ends and is repeated.
//!   Deleting what is gone is done.

use std::collections::{BTreeMap, BTreeSet};

use flexor_model::{DnsLabel, Job, JobUid, NodeId, Plan, Rank, Resources, RoleName, UnixTime};

use super::{JobStatus, PlanStatus, Planning};
use crate::{Cause, nodes};

/// One job and all that exists of it.
#[derive(Debug)]
pub struct ObservedJob<'a> {
    /// What its user wants.
    pub job: &'a Job,
    /// Counts the edits of that.
    pub generation: u64,
    /// The job's uid.
    pub uid: &'a JobUid,
    /// The namespace of the job and all its objects.
    pub namespace: &'a DnsLabel,
    /// Its user has deleted it.
    pub deleting: bool,
    /// The status that was written last.
    pub status: &'a JobStatus,
    /// All its pods, also those that have ended.
    pub pods: &'a [ObservedPod],
    /// The names of its services.
    pub services: &'a BTreeSet<String>,
    /// All plans for it, also those that are over.
    pub plans: &'a [ObservedPlan],
    /// Its parameter servers that are to leave and serve no partition any more, as its master reports.
    pub released: &'a BTreeSet<String>,
    /// Why its rendezvous is closed, as its master reports.
    pub closed: Option<&'a Cause>,
    /// Who decides about its replicas.
    pub planning: Planning<'a>,
    /// What the executor knows and the lists do not show yet.
    pub executor: &'a ExecutorState,
}

/// What an executor knows of its own actions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutorState {
    /// Some list is not complete yet. Nothing is decided until it is: a pod that is missing in it is not lost.
    pub is_listing: bool,
    /// Pods that were created and that `pods` does not show yet.
    pub outstanding: BTreeSet<String>,
    /// Pods whose creation was refused, by name; one that was created since is not among them.
    pub refused: BTreeMap<String, RefusedCreate>,
    /// The same of services.
    pub refused_services: BTreeMap<String, RefusedCreate>,
    /// What the largest node has for pods, as far as it is known.
    pub largest_node: Resources,
}

/// A pod or service that could not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedCreate {
    /// What the API server answered.
    pub message: String,
    /// When it was tried last.
    pub tried_at: UnixTime,
    /// How often it was tried in a row.
    pub attempts: u32,
}

/// A pod.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedPod {
    /// Its name, which a later incarnation may have again.
    pub name: String,
    /// Its uid, which no other incarnation has.
    pub uid: String,
    /// Its role.
    pub role: RoleName,
    /// The number in its name.
    pub id: NodeId,
    /// The slot that it fills.
    pub rank: Rank,
    /// How far it is.
    pub phase: PodPhase,
    /// It is terminating.
    pub deleting: bool,
    /// It is terminating, its time to end is over, and its node does not answer: it goes only if it is forced to.
    pub overdue: bool,
    /// What keeps it from being started.
    pub pending: Option<Cause>,
    /// How it ended; meaningful once it has ended or is terminating.
    pub end: nodes::ObservedExit,
    /// When its main program began to run.
    pub started_at: Option<UnixTime>,
    /// When it ended.
    pub finished_at: Option<UnixTime>,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    /// Not all of its containers have started.
    Pending,
    /// Its main program runs.
    Running,
    /// Its main program ended well.
    Succeeded,
    /// It ended otherwise.
    Failed,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedPlan {
    /// What it wants.
    pub plan: Plan,
    /// When it was created.
    pub created_at: UnixTime,
    /// The status that was written last.
    pub status: PlanStatus,
}

impl ObservedPod {
    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }
}
