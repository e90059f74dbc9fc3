//! The controller: what to do about a job's pods, services and plans, given what was observed.
//!
//! [`reconcile`] looks at everything that was observed of one job and returns actions; it has no memory of its own. What
//! must not be forgotten is in [`JobStatus`], which is written before any action that depends on it. The first action that
//! fails ends the pass, and the next pass starts from what is then observed. So a pass may end between any two actions, be
//! repeated, or be made by another process, and the job comes to the same state.
//!
//! It does not talk to a cluster or to processes: an executor carries the actions out, on Kubernetes or on a laptop.

mod action;
mod assignment;
mod automatic_plans;
mod cleanup;
mod migration;
mod migration_steps;
mod observed;
mod outcome;
mod plans;
mod pod_index;
mod pod_resources;
mod services;
mod slots;
mod status;
mod surplus;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use flexor_model::{Reason, UnixTime};

pub use action::{Action, DesiredPod, DesiredService, Event};
pub use assignment::{JobAssignment, Place, Planning, RoleAssignment};
pub use migration::{Migration, MigrationStage, PodKey};
pub use observed::{ExecutorState, ObservedJob, ObservedPlan, ObservedPod, PodPhase, RefusedCreate};
pub use plans::plan_fits;
pub use pod_resources::{first_resources, planned_resources};
pub use status::{
    JobStatus, Phase, PlanPhase, PlanStatus, RoleStatus, SetBy, SizeChange, Slot, SlotEnd, StatusError, StoredStatus,
    Target,
};

use crate::Cause;
use pod_index::PodIndex;

/// The result of one pass over a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reconciliation {
    /// In this order; the first that fails ends the pass.
    pub actions: Vec<Action>,
    /// When to reconcile again if nothing changes before.
    pub requeue_at: Option<UnixTime>,
    /// The pods among those to create that do not depend on the status that is written first.
    pub free_creates: BTreeSet<String>,
}

/// Decides about a job.
pub fn reconcile(observed: &ObservedJob<'_>, now: UnixTime) -> Reconciliation {
    if observed.executor.is_listing {
        return Reconciliation::default();
    }
    let mut pass = Reconciler::new(observed, now);
    if observed.deleting {
        pass.remove_everything(&Cause::new(Reason::JobDeleted, "the job was deleted"));
    } else if pass.status.phase.is_over() {
        pass.end_open_plans();
        pass.clean_up();
    } else {
        pass.begin();
        pass.take_over_sizes();
        pass.run_plans();
        pass.check_replication_factor();
        if observed.job.suspended {
            pass.suspend();
        } else {
            pass.reconcile_services();
            pass.remove_pods_of_gone_roles();
            pass.reconcile_slots();
            pass.judge();
        }
    }
    pass.finish()
}

/// One pass over a job.
struct Reconciler<'a> {
    observed: &'a ObservedJob<'a>,
    pods: PodIndex<'a>,
    now: UnixTime,
    /// The status that the pass will write.
    status: JobStatus,
    actions: Vec<Action>,
    requeue_at: Option<UnixTime>,
    /// A pod or service that the job lacks because its creation was refused.
    refused: Option<Cause>,
    service_is_refused: bool,
    /// The pods to create whose slots change in nothing that has to be written before.
    free_creates: BTreeSet<String>,
}

impl<'a> Reconciler<'a> {
    fn new(observed: &'a ObservedJob<'a>, now: UnixTime) -> Self {
        let status = observed.status.clone();
        let pods = PodIndex::of(observed.pods);
        Self {
            observed,
            pods,
            now,
            status,
            actions: Vec::new(),
            requeue_at: None,
            refused: None,
            service_is_refused: false,
            free_creates: BTreeSet::new(),
        }
    }

    fn begin(&mut self) {
        if self.status.created_at.is_none() {
            self.status.created_at = Some(self.now);
            self.record(Cause::new(Reason::JobCreated, "the job is taken up"));
        }
    }

    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Records an event about the job.
    fn record(&mut self, cause: Cause) {
        self.act(Action::Record(Event { pod: None, cause }));
    }

    /// Records an event about one of its pods.
    fn record_of(&mut self, pod: &str, cause: Cause) {
        self.act(Action::Record(Event { pod: Some(pod.to_owned()), cause }));
    }

    fn requeue(&mut self, at: UnixTime) {
        self.requeue_at = Some(self.requeue_at.map_or(at, |known| known.min(at)));
    }

    /// The status is written before anything else is done.
    fn finish(self) -> Reconciliation {
        let before = self.observed.status;
        let may_wait = self.status_may_wait();
        let mut free_creates = self.free_creates;
        if self.status.targets != before.targets || self.status.phase != before.phase {
            free_creates.clear();
        }
        let mut actions = self.actions;
        if self.status != *before {
            let status = Box::new(self.status);
            actions.insert(0, if may_wait { Action::NoteStatus(status) } else { Action::SetStatus(status) });
        }
        Reconciliation { actions, requeue_at: self.requeue_at, free_creates }
    }

    /// Whether the status differs only in slots, and there in nothing that must be written at once.
    fn status_may_wait(&self) -> bool {
        let mut noted = self.observed.status.clone();
        for role in &self.observed.job.roles {
            let (Some(old), Some(new)) = (noted.roles.get_mut(&role.name), self.status.roles.get(&role.name)) else {
                continue;
            };
            for (rank, slot) in &new.slots {
                if let Some(old) = old.slots.get_mut(rank)
                    && slot.follows_from(old, role.naming.ids)
                {
                    old.clone_from(slot);
                }
            }
        }
        noted == self.status
    }
}

/// A count with its noun: `1 replica`, `3 replicas`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
