//! The target replicas of each role: the job's description sets them, and plans change them.

use std::collections::{BTreeMap, BTreeSet};

use flexor_model::{Rank, Reason, Resources, Role, RoleKind};

use super::assignment::{JobAssignment, Planning, RoleAssignment};
use super::status::{SetBy, SizeChange, Target};
use super::{Reconciler, counted};
use crate::Cause;

/// So many changes of targets by the planner are kept.
const MOST_SIZE_CHANGES: usize = 10;

impl Reconciler<'_> {
    /// Takes targets from the cluster's planner, or from the description where none plans the job. Targets of roles that
    /// the description no longer has are dropped.
    pub(super) fn take_over_sizes(&mut self) {
        match self.observed.planning {
            Planning::Unplanned => self.take_over_description(),
            Planning::Undecided => self.take_over_assignment(None),
            Planning::Assigned(assignment) => self.take_over_assignment(Some(assignment)),
        }
        let roles = &self.observed.job.roles;
        self.status.targets.retain(|name, _| roles.iter().any(|role| role.name == *name));
        self.status.roles.retain(|name, _| roles.iter().any(|role| role.name == *name));
    }

    /// Sets the targets as the planner says; without its word they stay as they are, and new roles wait.
    fn take_over_assignment(&mut self, assignment: Option<&JobAssignment>) {
        let generation = self.observed.generation;
        for role in &self.observed.job.roles {
            let target = self.status.targets.entry(role.name.clone()).or_insert_with(|| {
                let cause = Cause::new(Reason::JobHeld, format!("{} waits for the cluster's planner", role.name));
                let of_spec = of_spec(role, generation, Resources::default(), cause);
                Target { replicas: 0, set_by: SetBy::Planner, ..of_spec }
            });
            (target.generation, target.spec_replicas) = (generation, role.size.initial());
            let Some(assignment) = assignment else { continue };
            let none = RoleAssignment::default();
            let assigned = assignment.roles.get(&role.name).unwrap_or(&none);
            target.promised.clone_from(&assigned.promised);
            let (before, after) = (target.replicas, u32::try_from(assigned.ranks.len()).unwrap_or(u32::MAX));
            target.vacant = vacant(&assigned.ranks);
            if before == after {
                continue;
            }
            target.replicas = after;
            let cause = assigned.cause.clone().or_else(|| assignment.held.clone()).unwrap_or_else(|| {
                Cause::new(Reason::SizeFromPlanner, format!("{} of {}", counted(after as usize, "replica"), role.name))
            });
            let change = SizeChange {
                at: self.now,
                role: role.name.clone(),
                from: before,
                to: after,
                message: cause.message.clone(),
            };
            if !target.set_by.is_by_hand() {
                (target.set_by, target.cause) = (SetBy::Planner, cause.clone());
            }
            self.status.size_changes.push(change);
            let excess = self.status.size_changes.len().saturating_sub(MOST_SIZE_CHANGES);
            self.status.size_changes.drain(..excess);
            self.record(cause);
        }
    }

    /// Takes targets from the description: for roles that have none, and for roles whose replicas were edited.
    fn take_over_description(&mut self) {
        let generation = self.observed.generation;
        for role in &self.observed.job.roles {
            let initial = role.size.initial();
            let replicas = format!("{} of {}", counted(initial as usize, "replica"), role.name);
            match self.status.targets.get_mut(&role.name) {
                Some(target) if target.spec_replicas == initial => target.generation = generation,
                Some(target) => {
                    let message = format!("{replicas}, as the job says now");
                    let cause = Cause::new(Reason::SizeFromSpec, message);
                    let resources = target.resources.clone();
                    let edited = of_spec(role, generation, resources, cause.clone());
                    *target = Target { set_by: SetBy::Edit, ..edited };
                    self.record(cause);
                }
                None => {
                    let message = format!("{replicas}, as the job says");
                    let cause = Cause::new(Reason::SizeFromSpec, message);
                    let target = of_spec(role, generation, Resources::default(), cause);
                    self.status.targets.insert(role.name.clone(), target);
                }
            }
        }
    }

    /// A replication factor of two needs two parameter servers: records an event whenever the target becomes one.
    pub(super) fn check_replication_factor(&mut self) {
        let job = self.observed.job;
        let servers = job.roles.iter().filter(|role| role.kind == RoleKind::ParameterServer);
        for role in servers.filter(|_| job.ps_replication_factor > 1) {
            let before = self.observed.status.targets.get(&role.name).map(|target| target.replicas);
            if self.replicas(role) == 1 && before != Some(1) {
                let message = format!(
                    "{} is to have 1 replica: one server has no place for the second copy, and what it keeps is lost with it; give it 2",
                    role.name
                );
                self.record(Cause::new(Reason::NoServerForBackup, message));
            }
        }
    }

    /// The ranks of a role that have a pod.
    pub(super) fn ranks(&self, role: &Role) -> Vec<Rank> {
        self.status.targets.get(&role.name).map(|target| target.ranks().collect()).unwrap_or_default()
    }

    pub(super) fn replicas(&self, role: &Role) -> u32 {
        self.status.targets.get(&role.name).map_or(0, |target| target.replicas)
    }
}

/// The ranks below the highest that are not among these.
fn vacant(ranks: &BTreeSet<Rank>) -> BTreeSet<Rank> {
    let end = ranks.last().map_or(0, |last| last.0);
    (0..end).map(Rank).filter(|rank| !ranks.contains(rank)).collect()
}

fn of_spec(role: &Role, generation: u64, resources: Resources, cause: Cause) -> Target {
    let replicas = role.size.initial();
    Target {
        replicas,
        resources,
        set_by: SetBy::Spec,
        generation,
        spec_replicas: replicas,
        wanted: None,
        vacant: BTreeSet::new(),
        promised: BTreeMap::new(),
        cause,
    }
}
