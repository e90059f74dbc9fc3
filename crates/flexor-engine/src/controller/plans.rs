//! Plans are queued objects: run one after the other, by the time they were made, then by name.
//!
//! A plan sets targets and is done when the pods are as it says. Whatever a plan asks for that cannot be is refused whole,
//! before anything of it is done. The latest word counts: a plan that waits for pods which do not come ends when a later
//! plan, or an edit of the job, speaks of a role of it. One that only waits for successors of pods
//! ([`super::migrating`]) lets the others go on.

use flexor_model::{Job, MOST_REPLICAS, Plan, Rank, Reason, Resources, Role, RoleKind};

use super::migrating::Migrated;
use super::status::{PlanPhase, PlanStatus, SetBy, Slot};
use super::{Action, ObservedPlan, ObservedPod, PodPhase, Reconciler, counted};
use crate::Cause;

impl Reconciler<'_> {
    pub(super) fn run_plans(&mut self) {
        self.forget_migrations();
        let observed = self.observed;
        let mut open: Vec<&ObservedPlan> = observed.plans.iter().filter(|plan| !plan.status.phase.is_over()).collect();
        open.sort_by_key(|plan| (plan.created_at, &plan.plan.name));
        open.retain(|plan| match self.check_plan(plan) {
            Err(cause) if plan.status.phase == PlanPhase::Pending => {
                self.give_up(plan, cause);
                false
            }
            Ok(()) | Err(_) => true,
        });
        for (place, first) in open.iter().enumerate() {
            if let Some(cause) = self.later_word(first, &open[place + 1..]) {
                self.give_up(first, cause);
                continue;
            }
            let lets_others_go_on = match first.status.phase {
                PlanPhase::Pending => self.try_to_begin(first),
                PlanPhase::Scaling => self.look_after_plan(first),
                PlanPhase::Succeeded | PlanPhase::Failed => true,
            };
            if !lets_others_go_on {
                return;
            }
        }
    }

    /// Why a plan is not to be carried out any further: somebody has said something else meanwhile.
    fn later_word(&self, seen: &ObservedPlan, later: &[&ObservedPlan]) -> Option<Cause> {
        let name = &seen.plan.name;
        let superseded = |detail: String| Some(Cause::new(Reason::PlanSuperseded, format!("{name}: {detail}")));
        let is_begun = seen.status.phase == PlanPhase::Scaling;
        if let Some(later) = later.iter().find(|later| supersedes(&later.plan, &seen.plan, is_begun)) {
            return superseded(format!("the plan {} speaks of the same role or pod", later.plan.name));
        }
        let edited = seen.plan.roles.keys().find(|role| {
            let target = self.status.targets.get(*role);
            is_begun && target.is_some_and(|target| target.set_by == SetBy::Spec)
        });
        edited.and_then(|role| superseded(format!("the job says how many {role} there are")))
    }

    /// Begins a plan, if what it is about is there. Whether those after it may go on.
    fn try_to_begin(&mut self, seen: &ObservedPlan) -> bool {
        match self.check_migrations(&seen.plan) {
            Ok(true) => self.begin_plan(seen),
            Ok(false) => {}
            Err(why) => {
                self.give_up(seen, Cause::new(Reason::PlanRefused, format!("{}: {why}", seen.plan.name)));
                return true;
            }
        }
        false
    }

    fn begin_plan(&mut self, seen: &ObservedPlan) {
        let name = seen.plan.name.to_string();
        for (role, change) in &seen.plan.roles {
            let Some(target) = self.status.targets.get_mut(role) else { continue };
            if let Some(replicas) = change.replicas {
                target.replicas = replicas;
            }
            if !change.resources.is_empty() {
                target.resources = change.resources.clone();
                let slots = self.status.roles.get_mut(role).map(|role| role.slots.values_mut());
                slots.into_iter().flatten().for_each(|slot| slot.resources = Resources::default());
            }
            target.set_by = SetBy::Plan(name.clone());
            let replicas = counted(target.replicas as usize, "replica");
            let detail = format!("{replicas} of {role}, as the plan {name} says");
            target.cause = Cause::new(Reason::SizeFromPlan, detail);
            let cause = target.cause.clone();
            self.tell(cause);
        }
        self.begin_migrations(&seen.plan);
        let cause = Cause::new(Reason::PlanBegun, format!("{name} is carried out"));
        let status = PlanStatus { phase: PlanPhase::Scaling, cause: Some(cause), finished_at: None };
        self.act(Action::SetPlanStatus { plan: name, status });
    }

    /// Why a plan cannot be carried out.
    fn check_plan(&self, seen: &ObservedPlan) -> Result<(), Cause> {
        let refused = |detail| Cause::new(Reason::PlanRefused, format!("{}: {detail}", seen.plan.name));
        plan_fits(&seen.plan, self.observed.job).map_err(refused)
    }

    /// A plan is done when every role that it names has its pods, and no more, and every pod that is to migrate has.
    /// Whether those after it may go on.
    fn look_after_plan(&mut self, seen: &ObservedPlan) -> bool {
        let is_sized = seen.plan.roles.keys().all(|name| {
            let role = self.observed.job.roles.iter().find(|role| role.name == *name);
            role.is_none_or(|role| self.has_its_size(role))
        });
        let name = seen.plan.name.to_string();
        match self.migrated(&seen.plan) {
            Migrated::Never(cause) => self.give_up(seen, cause),
            Migrated::All if is_sized => {
                let cause = Cause::new(Reason::PlanDone, format!("{name}: all pods are as it says"));
                self.tell(cause.clone());
                self.end_plan(&name, PlanPhase::Succeeded, cause);
                return false;
            }
            Migrated::NotYet(cause) if is_sized && seen.status.cause.as_ref() != Some(&cause) => {
                let status = PlanStatus { phase: PlanPhase::Scaling, cause: Some(cause), finished_at: None };
                self.act(Action::SetPlanStatus { plan: name, status });
            }
            Migrated::All | Migrated::NotYet(_) => {}
        }
        is_sized
    }

    fn has_its_size(&self, role: &Role) -> bool {
        let replicas = self.replicas(role);
        let Some(slots) = self.status.roles.get(&role.name) else { return replicas == 0 };
        let is_there = |pod: &ObservedPod| !pod.deleting && pod.phase != PodPhase::Pending;
        let is_filled = |rank: Rank| {
            let pods = self.places.at(&role.name, rank);
            // Nobody takes a place that has come to its end.
            let fills = |slot: &Slot| slot.end.is_some() || pods.iter().any(|pod| pod.id == slot.id && is_there(pod));
            slots.slots.get(&rank).is_some_and(fills)
        };
        let has_surplus = self.places.from(&role.name, Rank(replicas)).next().is_some();
        !has_surplus && (0..replicas).map(Rank).all(is_filled)
    }

    /// A plan that is not carried out, or not to its end.
    fn give_up(&mut self, seen: &ObservedPlan, cause: Cause) {
        self.tell(cause.clone());
        self.end_plan(seen.plan.name.as_str(), PlanPhase::Failed, cause);
    }

    fn end_plan(&mut self, name: &str, phase: PlanPhase, cause: Cause) {
        let status = PlanStatus { phase, cause: Some(cause), finished_at: Some(self.now) };
        self.act(Action::SetPlanStatus { plan: name.to_owned(), status });
    }
}

/// Why a job cannot carry a plan out, as far as that can be seen without its pods.
pub fn plan_fits(plan: &Plan, job: &Job) -> Result<(), String> {
    if !(plan.create.is_empty() && plan.remove.is_empty()) {
        let instead = "write how many a role is to have (replicaResourceSpecs)";
        return Err(format!("pods are not created and removed one by one; {instead}"));
    }
    for (name, change) in &plan.roles {
        let Some(role) = job.roles.iter().find(|role| role.name == *name) else {
            let known = job.roles.iter().filter(|role| role.kind != RoleKind::Master);
            let known: Vec<&str> = known.map(|role| role.name.as_str()).collect();
            return Err(format!("the job has no role {name}; it has {}", known.join(", ")));
        };
        if let Some(replicas) = change.replicas.filter(|replicas| *replicas > MOST_REPLICAS) {
            return Err(format!("{replicas} replicas of {name} are more than {MOST_REPLICAS}"));
        }
        let allowed = role.size.allowed();
        if let Some(replicas) = change.replicas.filter(|replicas| !allowed.contains(*replicas)) {
            return Err(format!("{replicas} replicas of {name} are outside of {allowed}"));
        }
    }
    Ok(())
}

/// Whether a later plan takes the place of an earlier one. What one has set that is begun stays set, unless the later one
/// says otherwise; of one that is not begun nothing must be lost.
fn supersedes(later: &Plan, earlier: &Plan, is_begun: bool) -> bool {
    let says_all = earlier.roles.iter().all(|(role, old)| {
        later.roles.get(role).is_some_and(|new| {
            (new.replicas.is_some() || old.replicas.is_none())
                && (!new.resources.is_empty() || old.resources.is_empty())
        })
    });
    let migrates_all = earlier.migrate.iter().all(|old| later.migrate.iter().any(|new| new.pod == old.pod));
    let shares_a_role = earlier.roles.keys().any(|role| later.roles.contains_key(role));
    if earlier.roles.is_empty() {
        return migrates_all && !earlier.migrate.is_empty();
    }
    shares_a_role && (is_begun || says_all && migrates_all)
}
