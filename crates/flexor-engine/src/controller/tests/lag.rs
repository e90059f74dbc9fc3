//! What lags in a cluster: the controller's lists are some actions old, and each is old by itself.
//!
//! Every change is published. The controller sees a mix of published states: the job's object, the pods, the services and
//! the plans each from a moment of their own, and never from an earlier one than before. A write of a status that was
//! decided on an old object is refused.

use super::any_world::{Refused, View};
use crate::controller::ObservedPlan;
use crate::dice::Dice;

/// What was published, and how much of it the controller has seen.
#[derive(Debug, Clone)]
pub(super) struct Lag {
    dice: Dice,
    published: Vec<View>,
    /// Which of them the controller sees: of the object, the pods, the services, the plans.
    seen: [usize; 4],
    /// The last version of the object that the executor wrote.
    own_version: u64,
    /// The plans as the executor last wrote them.
    own_plans: Vec<ObservedPlan>,
}

impl Default for Lag {
    fn default() -> Self {
        Self { dice: Dice(7), published: Vec::new(), seen: [0; 4], own_version: 0, own_plans: Vec::new() }
    }
}

impl Lag {
    /// The version of the object in this state: one more than before if a user has edited it.
    pub(super) fn version_of(&self, state: &View) -> u64 {
        let Some(last) = self.published.last() else { return self.own_version };
        let is_edited = (&last.job, last.generation, last.deleting) != (&state.job, state.generation, state.deleting);
        last.version.max(self.own_version) + u64::from(is_edited)
    }

    pub(super) fn publish(&mut self, state: View) {
        if self.published.last() != Some(&state) {
            self.published.push(state);
        }
    }

    /// Half of the executors remember which pods they created.
    pub(super) fn remembers_creations(&mut self) -> bool {
        self.dice.roll(2) == 0
    }

    /// What the controller sees now.
    pub(super) fn view(&mut self) -> View {
        for seen in &mut self.seen {
            let behind = (self.published.len() - 1 - *seen) as u64;
            *seen += usize::try_from(self.dice.roll(behind + 1)).unwrap();
        }
        let [object, pods, services, plans] = self.seen.map(|seen| &self.published[seen]);
        View {
            pods: pods.pods.clone(),
            services: services.services.clone(),
            plans: plans.plans.clone(),
            // The master's reports come over a stream of their own.
            released: pods.released.clone(),
            closed: pods.closed.clone(),
            ..object.clone()
        }
    }

    /// Whether the object or a plan is older than what the executor wrote itself.
    pub(super) fn is_older_than_own_writes(&self, view: &View) -> bool {
        let is_old = |own: &ObservedPlan| {
            view.plans.iter().any(|seen| seen.plan.name == own.plan.name && seen.status != own.status)
        };
        view.version < self.own_version || self.own_plans.iter().any(is_old)
    }

    /// Writes the status, unless the object was written since the controller read it.
    pub(super) fn write_status(&mut self, view: &View, actual: &View) -> Result<(), Refused> {
        let version = self.version_of(actual);
        if view.version != version {
            return Err(Refused::Conflict);
        }
        self.own_version = version + 1;
        Ok(())
    }

    pub(super) fn write_plan(&mut self, plan: &ObservedPlan) {
        self.own_plans.retain(|own| own.plan.name != plan.plan.name);
        self.own_plans.push(plan.clone());
    }

    /// A process that takes over lists everything anew.
    pub(super) fn restart(&mut self) {
        self.seen = [self.published.len() - 1; 4];
    }
}
