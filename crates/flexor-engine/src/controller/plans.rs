//! Plans form a queue: they run one after the other, by creation time, then by name.
//!
//! A plan sets targets and is done when the pods are as it says. A plan that asks for something impossible is refused
//! as a whole, before any of it is done. The latest request counts: a later plan for the same role, or an edit of the job,
//! ends a plan that still waits for pods. A plan that only waits for successors of pods ([`super::migration_steps`]) does
//! not hold up later plans.

use flexor_model::{Job, MOST_REPLICAS, Plan, PlanOrigin, Rank, Reason, Resources, Role, RoleKind};

use super::migration_steps::MigrationProgress;
use super::status::{PlanPhase, PlanStatus, SetBy, Slot};
use super::{Action, ObservedPlan, ObservedPod, Planning, PodPhase, Reconciler, counted};
use crate::Cause;

impl Reconciler<'_> {
    pub(super) fn run_plans(&mut self) {
        self.drop_migrations();
        let all = self.observed.plans;
        let mut open: Vec<&ObservedPlan> = all.iter().filter(|plan| !plan.status.phase.is_over()).collect();
        open.sort_by_key(|plan| (plan.created_at, &plan.plan.name));
        open.retain(|plan| match self.check_plan(plan) {
            Err(cause) if plan.status.phase == PlanPhase::Pending => {
                self.give_up(plan, cause);
                false
            }
            Ok(()) | Err(_) => true,
        });
        for (position, first) in open.iter().enumerate() {
            if let Some(cause) = self.superseded(first, &open[position + 1..]) {
                self.give_up(first, cause);
                continue;
            }
            let may_later_plans_run = match first.status.phase {
                PlanPhase::Pending => self.try_to_begin(first),
                PlanPhase::Scaling => self.advance_plan(first),
                PlanPhase::Succeeded | PlanPhase::Failed => true,
            };
            if !may_later_plans_run {
                return;
            }
        }
    }

    /// A job that is over carries out no plan any more.
    pub(super) fn end_open_plans(&mut self) {
        let all = self.observed.plans;
        for open in all.iter().filter(|plan| !plan.status.phase.is_over()) {
            self.give_up(open, Cause::new(Reason::JobOver, format!("{}: the job is over", open.plan.name)));
        }
    }

    /// Why a plan is not carried out any further: a later plan or an edit of the job replaces it.
    fn superseded(&self, observed: &ObservedPlan, later: &[&ObservedPlan]) -> Option<Cause> {
        let name = &observed.plan.name;
        let superseded = |detail: String| Some(Cause::new(Reason::PlanSuperseded, format!("{name}: {detail}")));
        let is_begun = observed.status.phase == PlanPhase::Scaling;
        let replaces =
            |later: &Plan| supersedes(later, &observed.plan, is_begun) || self.is_overruled(&observed.plan, later);
        if let Some(later) = later.iter().find(|later| replaces(&later.plan)) {
            return superseded(format!("the plan {} is about the same role or pod", later.plan.name));
        }
        let edited = observed.plan.roles.keys().find(|role| {
            let target = self.status.targets.get(*role);
            is_begun && target.is_some_and(|target| matches!(target.set_by, SetBy::Spec | SetBy::Edit))
        });
        edited.and_then(|role| superseded(format!("the job says how many {role} there are")))
    }

    /// Begins a plan if the pods that it names exist. Returns whether later plans may run.
    fn try_to_begin(&mut self, observed: &ObservedPlan) -> bool {
        match self.check_migrations(&observed.plan) {
            Ok(true) => self.begin_plan(observed),
            Ok(false) => {}
            Err(why) => {
                self.give_up(observed, Cause::new(Reason::PlanRefused, format!("{}: {why}", observed.plan.name)));
                return true;
            }
        }
        false
    }

    fn begin_plan(&mut self, observed: &ObservedPlan) {
        let name = observed.plan.name.to_string();
        let mut causes = Vec::new();
        for (role, change) in &observed.plan.roles {
            let Some(target) = self.status.targets.get_mut(role) else { continue };
            let wanted = change.replicas.unwrap_or(target.replicas);
            match self.observed.planning {
                Planning::Unplanned => target.replicas = wanted,
                // The planner has the last word, and makes room first.
                Planning::Undecided | Planning::Assigned(_) => target.wanted = change.replicas,
            }
            if !change.resources.is_empty() {
                target.resources = change.resources.clone();
                let slots = self.status.roles.get_mut(role).map(|role| role.slots.values_mut());
                slots.into_iter().flatten().for_each(|slot| slot.resources = Resources::default());
            }
            target.set_by = match observed.plan.origin {
                PlanOrigin::Manual if !observed.plan.gives_back => SetBy::Plan(name.clone()),
                PlanOrigin::Manual | PlanOrigin::Auto => SetBy::Auto(name.clone()),
            };
            let replicas = counted(wanted as usize, "replica");
            let message = format!("{replicas} of {role}, as the plan {name} says{}", because(&observed.plan));
            target.cause = Cause::new(Reason::SizeFromPlan, message);
            causes.push(target.cause.clone());
        }
        self.begin_migrations(&observed.plan);
        let cause = Cause::new(Reason::PlanBegun, format!("{name} is carried out{}", because(&observed.plan)));
        let status = PlanStatus { phase: PlanPhase::Scaling, cause: Some(cause), finished_at: None };
        self.act(Action::SetPlanStatus { plan: name, status });
        causes.into_iter().for_each(|cause| self.record(cause));
    }

    /// Why a plan cannot be carried out.
    fn check_plan(&self, observed: &ObservedPlan) -> Result<(), Cause> {
        let refused = |detail| Cause::new(Reason::PlanRefused, format!("{}: {detail}", observed.plan.name));
        plan_fits(&observed.plan, self.observed.job).map_err(refused)?;
        match observed.plan.origin {
            // A plan that has begun has set the targets by itself.
            PlanOrigin::Auto if observed.status.phase == PlanPhase::Pending => {
                self.check_automatic(observed).map_err(refused)
            }
            PlanOrigin::Auto | PlanOrigin::Manual => Ok(()),
        }
    }

    /// A plan is done when every role that it names has exactly its pods, and every pod that is to migrate has done so.
    /// Returns whether later plans may run.
    fn advance_plan(&mut self, observed: &ObservedPlan) -> bool {
        let has_size = observed.plan.roles.keys().all(|name| {
            let role = self.observed.job.roles.iter().find(|role| role.name == *name);
            role.is_none_or(|role| self.has_target_replicas(role))
        });
        let name = observed.plan.name.to_string();
        match self.migration_progress(&observed.plan) {
            MigrationProgress::Never(cause) => self.give_up(observed, cause),
            MigrationProgress::Done | MigrationProgress::Waiting(_) if self.gave_up_for_want_of_room(observed) => {}
            MigrationProgress::Done if has_size => {
                let message = format!("{name}: all pods are as it says{}", because(&observed.plan));
                let cause = Cause::new(Reason::PlanDone, message);
                self.end_plan(&name, PlanPhase::Succeeded, cause);
                return false;
            }
            MigrationProgress::Waiting(cause) if has_size && observed.status.cause.as_ref() != Some(&cause) => {
                let status = PlanStatus { phase: PlanPhase::Scaling, cause: Some(cause), finished_at: None };
                self.act(Action::SetPlanStatus { plan: name, status });
            }
            MigrationProgress::Done | MigrationProgress::Waiting(_) => {}
        }
        has_size
    }

    pub(super) fn has_target_replicas(&self, role: &Role) -> bool {
        let Some(target) = self.status.targets.get(&role.name) else { return true };
        let Some(slots) = self.status.roles.get(&role.name) else { return target.replicas == 0 };
        let is_started = |pod: &ObservedPod| !pod.deleting && pod.phase != PodPhase::Pending;
        let is_filled = |rank: Rank| {
            let pods = self.pods.at(&role.name, rank);
            // A slot that has ended stays empty.
            let fills = |slot: &Slot| slot.end.is_some() || pods.iter().any(|pod| pod.id == slot.id && is_started(pod));
            slots.slots.get(&rank).is_some_and(fills)
        };
        let has_surplus = self.pods.of_role(&role.name).any(|pod| !target.has(pod.rank));
        let is_wanted = target.wanted.is_none_or(|wanted| wanted == target.replicas);
        is_wanted && !has_surplus && target.ranks().all(is_filled)
    }

    /// Fails a plan.
    pub(super) fn give_up(&mut self, observed: &ObservedPlan, cause: Cause) {
        self.end_plan(observed.plan.name.as_str(), PlanPhase::Failed, cause);
    }

    fn end_plan(&mut self, name: &str, phase: PlanPhase, cause: Cause) {
        let status = PlanStatus { phase, cause: Some(cause.clone()), finished_at: Some(self.now) };
        // The status comes first: a pass that cannot write it records nothing.
        self.act(Action::SetPlanStatus { plan: name.to_owned(), status });
        self.record(cause);
    }
}

/// Why a job cannot carry a plan out, as far as that shows without its pods.
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

/// Why a plan was made, as a suffix; empty where it does not say.
fn because(plan: &Plan) -> String {
    if plan.message.is_empty() { String::new() } else { format!(": {}", plan.message) }
}

/// Whether a later plan replaces an earlier one. Targets of a plan that has begun stay set, so a shared role suffices.
/// A plan that has not begun is replaced only by one that says everything that it says.
///
/// An automatic plan never replaces the plan of a person.
fn supersedes(later: &Plan, earlier: &Plan, is_begun: bool) -> bool {
    if later.origin == PlanOrigin::Auto && earlier.origin == PlanOrigin::Manual {
        return false;
    }
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
