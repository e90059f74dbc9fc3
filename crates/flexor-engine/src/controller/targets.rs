//! The target replicas of each role: the job's description sets them, and plans change them.

use flexor_model::{Reason, Resources, Role, RoleKind};

use super::status::{SetBy, Target};
use super::{Reconciler, counted};
use crate::Cause;

impl Reconciler<'_> {
    /// Takes targets from the description: for roles that have none, and for roles whose replicas were edited. Targets
    /// of roles that the description no longer has are dropped.
    pub(super) fn take_over_sizes(&mut self) {
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
        let roles = &self.observed.job.roles;
        self.status.targets.retain(|name, _| roles.iter().any(|role| role.name == *name));
        self.status.roles.retain(|name, _| roles.iter().any(|role| role.name == *name));
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

    pub(super) fn replicas(&self, role: &Role) -> u32 {
        self.status.targets.get(&role.name).map_or(0, |target| target.replicas)
    }
}

fn of_spec(role: &Role, generation: u64, resources: Resources, cause: Cause) -> Target {
    let replicas = role.size.initial();
    Target { replicas, resources, set_by: SetBy::Spec, generation, spec_replicas: replicas, cause }
}
