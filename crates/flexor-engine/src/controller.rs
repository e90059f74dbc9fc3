//! The controller: what is to be done about a job's pods, services and plans, given what is there.
//!
//! [`plan`] looks at everything that is observed of one job and says what to do; it has no memory of its own. What must
//! not be forgotten is in [`JobStatus`], which is written *before* anything that depends on it is done: the first action
//! that fails ends the turn, and the next one begins from what is then observed. So a turn may end between any two of its
//! actions, be repeated, or be made by another process, and the job comes to the same state.
//!
//! It is *not* for talking to a cluster or to processes: whoever owns the job's objects carries the actions out, on
//! Kubernetes or on a laptop.

mod action;
mod ending;
mod migrating;
mod migration;
mod observed;
mod outcome;
mod places;
mod plans;
mod services;
mod slots;
mod status;
mod surplus;
mod targets;
#[cfg(test)]
mod tests;

pub use action::{Action, DesiredPod, DesiredService, Event};
pub use migration::{Migration, MigrationStage, Placed};
pub use observed::{ObservedJob, ObservedPlan, ObservedPod, PodPhase};
pub use plans::plan_fits;
pub use status::{JobStatus, Phase, PlanPhase, PlanStatus, RoleStatus, SetBy, Slot, SlotEnd, Target};

use flexor_model::UnixTime;

use crate::Cause;
use places::Places;

/// What is to be done now, and when to look again if nothing changes until then.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reconciliation {
    /// In this order; the first that fails ends the turn.
    pub actions: Vec<Action>,
    /// When to reconcile again if nothing changes before.
    pub requeue_at: Option<UnixTime>,
}

/// Decides about a job.
pub fn reconcile(observed: &ObservedJob<'_>, now: UnixTime) -> Reconciliation {
    let mut turn = Reconciler::new(observed, now);
    if observed.deleting {
        turn.remove_everything(&Cause::new(flexor_model::Reason::JobDeleted, "the job was deleted"));
    } else if turn.status.phase.is_over() {
        turn.clean_up();
    } else {
        turn.begin();
        turn.take_over_sizes();
        turn.run_plans();
        turn.look_for_places_of_copies();
        if observed.job.suspended {
            turn.suspend();
        } else {
            turn.make_services();
            turn.take_away_gone_roles();
            turn.reconcile_slots();
            turn.judge();
        }
    }
    turn.finish()
}

/// A turn that is being thought out.
struct Reconciler<'a> {
    observed: &'a ObservedJob<'a>,
    /// Its pods.
    places: Places<'a>,
    now: UnixTime,
    /// What the status will be.
    status: JobStatus,
    actions: Vec<Action>,
    requeue_at: Option<UnixTime>,
}

impl<'a> Reconciler<'a> {
    fn new(observed: &'a ObservedJob<'a>, now: UnixTime) -> Self {
        let status = observed.status.clone();
        let places = Places::of(observed.pods);
        Self { observed, places, now, status, actions: Vec::new(), requeue_at: None }
    }

    fn begin(&mut self) {
        if self.status.created_at.is_none() {
            self.status.created_at = Some(self.now);
            self.tell(Cause::new(flexor_model::Reason::JobCreated, "the job is taken up"));
        }
    }

    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Something about the job that people should see.
    fn tell(&mut self, cause: Cause) {
        self.act(Action::Record(Event { pod: None, cause }));
    }

    /// Something about a pod of it.
    fn tell_of(&mut self, pod: &str, cause: Cause) {
        self.act(Action::Record(Event { pod: Some(pod.to_owned()), cause }));
    }

    fn wake(&mut self, at: UnixTime) {
        self.requeue_at = Some(self.requeue_at.map_or(at, |known| known.min(at)));
    }

    /// What was decided is written down before anything is done.
    fn finish(self) -> Reconciliation {
        let mut actions = self.actions;
        if self.status != *self.observed.status {
            actions.insert(0, Action::SetStatus(Box::new(self.status)));
        }
        Reconciliation { actions, requeue_at: self.requeue_at }
    }
}

/// So many of something, in words.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
