//! Plans are queued objects: run one after the other, by the time they were made, then by name.
//!
//! A plan sets targets and is done when the pods are as it says. Whatever a plan asks for that cannot be is refused whole,
//! before anything of it is done.

use flexor_model::{Reason, Role};

use super::status::{PlanPhase, PlanStatus, SetBy};
use super::{Action, Draft, PlanSeen, PodPhase};
use crate::Because;

impl Draft<'_> {
    pub(super) fn run_plans(&mut self) {
        let observed = self.observed;
        let mut open: Vec<&PlanSeen> = observed.plans.iter().filter(|plan| !plan.status.phase.is_over()).collect();
        open.sort_by_key(|plan| (plan.created_at, &plan.plan.name));
        let Some(first) = open.first().copied() else { return };
        match first.status.phase {
            PlanPhase::Pending => self.begin_plan(first),
            PlanPhase::Scaling => self.look_after_plan(first),
            PlanPhase::Succeeded | PlanPhase::Failed => {}
        }
    }

    fn begin_plan(&mut self, seen: &PlanSeen) {
        let name = seen.plan.name.to_string();
        if let Err(because) = self.check_plan(seen) {
            self.tell(because.clone());
            return self.end_plan(&name, PlanPhase::Failed, because);
        }
        for (role, change) in &seen.plan.roles {
            let Some(target) = self.status.targets.get_mut(role) else { continue };
            if let Some(replicas) = change.replicas {
                target.replicas = replicas;
            }
            if !change.resources.is_empty() {
                target.resources = change.resources.clone();
            }
            target.set_by = SetBy::Plan(name.clone());
            let detail = format!("{} replicas of {role}, as the plan {name} says", target.replicas);
            target.because = Because::new(Reason::SizeFromPlan, detail);
            let because = target.because.clone();
            self.tell(because);
        }
        let because = Because::new(Reason::PlanBegun, format!("{name} is carried out"));
        let status = PlanStatus { phase: PlanPhase::Scaling, because: Some(because), finished_at: None };
        self.act(Action::SetPlanStatus { plan: name, status });
    }

    /// Why a plan cannot be carried out.
    fn check_plan(&self, seen: &PlanSeen) -> Result<(), Because> {
        let plan = &seen.plan;
        let refused = |detail: String| Err(Because::new(Reason::PlanRefused, format!("{}: {detail}", plan.name)));
        if !(plan.create.is_empty() && plan.remove.is_empty() && plan.migrate.is_empty()) {
            return refused(
                "pods are created, removed and migrated one by one only in parameter-server jobs".to_owned(),
            );
        }
        for (name, change) in &plan.roles {
            let Some(role) = self.observed.job.roles.iter().find(|role| role.name == *name) else {
                return refused(format!("the job has no role {name}"));
            };
            let allowed = role.size.allowed();
            if let Some(replicas) = change.replicas.filter(|replicas| !allowed.contains(*replicas)) {
                return refused(format!("{replicas} replicas of {name} are outside of {allowed}"));
            }
        }
        Ok(())
    }

    /// A plan is done when every role that it names has its pods, and no more.
    fn look_after_plan(&mut self, seen: &PlanSeen) {
        let done = seen.plan.roles.keys().all(|name| {
            let role = self.observed.job.roles.iter().find(|role| role.name == *name);
            role.is_none_or(|role| self.has_its_size(role))
        });
        if done {
            let name = seen.plan.name.to_string();
            let because = Because::new(Reason::PlanDone, format!("all pods of {name} are as it says"));
            self.end_plan(&name, PlanPhase::Succeeded, because);
        }
    }

    fn has_its_size(&self, role: &Role) -> bool {
        let pods = || self.observed.pods.iter().filter(|pod| pod.role == role.name);
        let replicas = self.replicas(role);
        let surplus = pods().any(|pod| pod.rank.0 >= replicas);
        let here = pods().filter(|pod| !pod.deleting && pod.phase != PodPhase::Pending).count();
        !surplus && here >= replicas as usize
    }

    fn end_plan(&mut self, name: &str, phase: PlanPhase, because: Because) {
        let status = PlanStatus { phase, because: Some(because), finished_at: Some(self.now) };
        self.act(Action::SetPlanStatus { plan: name.to_owned(), status });
    }
}
