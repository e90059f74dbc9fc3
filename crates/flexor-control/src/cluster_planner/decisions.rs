//! The decisions of one plan by job and role. There may be thousands of jobs, and each looks up its own.

use std::collections::HashMap;

use flexor_engine::Cause;
use flexor_model::{Reason, RoleName};
use flexor_sched::{ClusterPlan, JobKey, RoleDecision, Shortage};

use super::Roles;

pub(super) struct Decisions<'a> {
    roles: HashMap<(&'a JobKey, &'a RoleName), &'a RoleDecision>,
    shortages: HashMap<&'a JobKey, &'a Shortage>,
    /// How many base pods of a job wait until their room is free.
    waiting: HashMap<&'a JobKey, usize>,
}

impl<'a> Decisions<'a> {
    pub(super) fn of(plan: &'a ClusterPlan, roles: &Roles<'_>) -> Self {
        let mut waiting: HashMap<&JobKey, usize> = HashMap::new();
        for promise in plan.promises.iter().filter(|promise| promise.rank.0 < roles.min(&promise.job, &promise.role)) {
            *waiting.entry(&promise.job).or_default() += 1;
        }
        Self {
            roles: plan.roles.iter().map(|decision| ((&decision.job, &decision.role), decision)).collect(),
            shortages: plan.held.iter().map(|held| (&held.job, &held.shortage)).collect(),
            waiting,
        }
    }

    /// Why pods are missing that the job cannot do without.
    pub(super) fn held(&self, job: &JobKey) -> Option<Cause> {
        if let Some(shortage) = self.shortages.get(job) {
            return Some(Cause::new(Reason::JobHeld, format!("{job} {shortage}")));
        }
        let waiting = self.waiting.get(job)?;
        let message =
            format!("{job} has room for {waiting} of its pods as soon as others that are ending there are gone");
        Some(Cause::new(Reason::JobHeld, message))
    }

    /// Why the role changes: `trainer 237 -> 184: -53 default/mnist2 needs room for its base`.
    pub(super) fn cause(&self, job: &JobKey, role: &RoleName) -> Option<Cause> {
        let text = self.roles.get(&(job, role))?.to_string();
        let text = text.strip_prefix(job.as_str()).map_or(text.as_str(), str::trim_start);
        Some(Cause::new(Reason::SizeFromPlanner, text))
    }
}
