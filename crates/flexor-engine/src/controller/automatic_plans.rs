//! Plans of the job's own master: what they may do, and when they are given up.
//!
//! They keep to the range and the ceiling of automatic sizing, and leave alone what a person has set. They are about what
//! was measured just now: one that cannot begin at once, or finds no room, has no future.

use std::time::Duration;

use flexor_model::{Plan, PlanOrigin, Quantity, Rank, Reason, Resources, Role, RoleName};

use super::status::Slot;
use super::{ObservedPlan, PodPhase, Reconciler, counted};
use crate::Cause;

/// A plan that has not begun, or has found no room for its pods, is given up after this.
pub(super) const OPEN_FOR: Duration = Duration::from_secs(60);

impl Reconciler<'_> {
    /// Why an automatic plan may not be carried out.
    pub(super) fn check_automatic(&self, observed: &ObservedPlan) -> Result<(), String> {
        let (plan, job) = (&observed.plan, self.observed.job);
        if self.now >= observed.created_at + OPEN_FOR {
            return Err("what it was made for was measured too long ago".to_owned());
        }
        for (name, change) in &plan.roles {
            let size = job.roles.iter().find(|role| role.name == *name).and_then(|role| role.size.automatically());
            let Some(range) = size else { return Err(format!("{name} is not sized automatically")) };
            if let Some(replicas) = change.replicas.filter(|replicas| !range.contains(*replicas)) {
                return Err(format!("{replicas} replicas of {name} are outside of {range}, its automatic range"));
            }
            self.check_left_to_us(name)?;
        }
        for (role, ..) in self.migrating(plan) {
            if role.size.automatically().is_none() {
                return Err(format!("{} is not sized automatically", role.name));
            }
            self.check_left_to_us(&role.name)?;
        }
        self.check_ceiling(observed)
    }

    fn check_left_to_us(&self, role: &RoleName) -> Result<(), String> {
        let is_by_hand = self.status.targets.get(role).is_some_and(|target| target.set_by.is_by_hand());
        let give_back = format!("flexor scale {} --auto", self.observed.job.name);
        if is_by_hand { Err(format!("{role} was set by hand; `{give_back}` gives it back")) } else { Ok(()) }
    }

    /// The slots whose pods a plan replaces, and what the successors are given.
    fn migrating<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (&'a Role, &'a Slot, &'a Resources)> {
        plan.migrate.iter().filter_map(|wanted| {
            let (role, rank) = self.slot_of(wanted.pod.as_str())?;
            let slot = self.status.roles.get(&role.name)?.slots.get(&rank)?;
            Some((role, slot, &wanted.resources))
        })
    }

    /// Whether a person's plan is about a role whose pods an automatic plan replaces.
    pub(super) fn is_overruled(&self, plan: &Plan, later: &Plan) -> bool {
        (plan.origin, later.origin) == (PlanOrigin::Auto, PlanOrigin::Manual)
            && self.migrating(plan).any(|(role, ..)| later.roles.contains_key(&role.name))
    }

    /// Whether the job grows beyond its ceiling. One that is above it already may shrink.
    fn check_ceiling(&self, observed: &ObservedPlan) -> Result<(), String> {
        let job = self.observed.job;
        let change = |role: &Role| observed.plan.roles.get(&role.name);
        let requested = |role: &Role, of_slot: &Resources| {
            role.template.main().requests().overlaid_by(&self.planned(role, of_slot))
        };
        for (resource, ceiling) in job.ceiling.iter() {
            let amount = |of: &Resources| of.get(resource).map_or(0, Quantity::billionths);
            let (mut before, mut after) = (0, 0);
            for role in &job.roles {
                let (now, change) = (self.replicas(role), change(role));
                let then = change.and_then(|change| change.replicas).unwrap_or(now);
                let requests = requested(role, &Resources::default());
                let next = change.map_or_else(|| requests.clone(), |change| requests.overlaid_by(&change.resources));
                before += i128::from(now) * amount(&requests);
                after += i128::from(then) * amount(&next);
            }
            for (role, slot, resources) in self.migrating(&observed.plan) {
                let requests = requested(role, &slot.resources);
                after += amount(&requests.overlaid_by(resources)) - amount(&requests);
            }
            if after > ceiling.billionths().max(before) {
                return Err(format!("its pods would request more {resource} than the job's ceiling, {ceiling}"));
            }
        }
        Ok(())
    }

    /// Gives an automatic plan up whose pods have found no room: the targets go back to what runs.
    pub(super) fn gave_up_for_want_of_room(&mut self, observed: &ObservedPlan) -> bool {
        let due = observed.created_at + OPEN_FOR;
        if observed.plan.origin != PlanOrigin::Auto {
            return false;
        }
        let job = self.observed.job;
        let waits = |role: &&Role| {
            self.pods.of_role(&role.name).any(|pod| !pod.deleting && pod.pending.is_some()) || self.is_refused(role)
        };
        let short: Vec<&Role> = job.roles.iter().filter(|role| observed.plan.roles.contains_key(&role.name)).collect();
        let short: Vec<&Role> =
            short.into_iter().filter(|role| !self.has_target_replicas(role)).filter(waits).collect();
        if short.is_empty() {
            return false;
        }
        if self.now < due {
            self.requeue(due);
            return false;
        }
        let mut shrunk = Vec::new();
        for role in short {
            // A pod that has ended well has had its room.
            let had_room = |pod: &&super::ObservedPod| !pod.deleting && pod.phase != PodPhase::Pending;
            let runs = self.pods.of_role(&role.name).filter(had_room);
            let runs = u32::try_from(runs.count()).unwrap_or(u32::MAX);
            let least = role.size.allowed().min();
            if let Some(target) = self.status.targets.get_mut(&role.name) {
                target.replicas = target.replicas.min(runs.max(least));
                shrunk.push(format!("{} of {}", counted(target.replicas as usize, "replica"), role.name));
            }
        }
        let message =
            format!("{}: no room for its pods within a minute; {} stay", observed.plan.name, shrunk.join(", "));
        self.give_up(observed, Cause::new(Reason::Unschedulable, message));
        true
    }

    /// Whether a pod of the role cannot be created.
    fn is_refused(&self, role: &Role) -> bool {
        let refused = &self.observed.executor.refused;
        let name = |(rank, slot): (&Rank, &Slot)| self.pod_name(role, slot.id, *rank, slot.relaunches);
        let mut slots = self.status.roles.get(&role.name).into_iter().flat_map(|role| &role.slots);
        !refused.is_empty() && slots.any(|slot| refused.contains_key(&name(slot)))
    }
}
