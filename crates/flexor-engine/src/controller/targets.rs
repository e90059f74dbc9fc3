//! How large each role is to be: what the job's description says, until somebody says otherwise.

use flexor_model::{Quantity, Reason, Resources, Role, RoleKind};

use super::status::{SetBy, Target};
use super::{Reconciler, counted};
use crate::{Cause, nodes};

impl Reconciler<'_> {
    /// Takes over the sizes of the description: of roles that have none yet, and of those whose size was edited. Roles
    /// that it has no longer are forgotten.
    pub(super) fn take_over_sizes(&mut self) {
        let generation = self.observed.generation;
        for role in &self.observed.job.roles {
            let initial = role.size.initial();
            let wanted = format!("{} of {}", counted(initial as usize, "replica"), role.name);
            match self.status.targets.get_mut(&role.name) {
                Some(target) if target.spec_replicas == initial => target.generation = generation,
                Some(target) => {
                    let detail = format!("{wanted}, as the job says now");
                    let cause = Cause::new(Reason::SizeFromSpec, detail);
                    let resources = target.resources.clone();
                    *target = of_spec(role, generation, resources, cause.clone());
                    self.tell(cause);
                }
                None => {
                    let detail = format!("{wanted}, as the job says");
                    let cause = Cause::new(Reason::SizeFromSpec, detail);
                    let target = of_spec(role, generation, Resources::default(), cause);
                    self.status.targets.insert(role.name.clone(), target);
                }
            }
        }
        let roles = &self.observed.job.roles;
        self.status.targets.retain(|name, _| roles.iter().any(|role| role.name == *name));
        self.status.roles.retain(|name, _| roles.iter().any(|role| role.name == *name));
    }

    /// A second copy of every parameter needs a second server: told whenever there are too few.
    pub(super) fn look_for_places_of_copies(&mut self) {
        let job = self.observed.job;
        let servers = job.roles.iter().filter(|role| role.kind == RoleKind::ParameterServer);
        for role in servers.filter(|_| job.ps_replication_factor > 1) {
            let before = self.observed.status.targets.get(&role.name).map(|target| target.replicas);
            if self.replicas(role) == 1 && before != Some(1) {
                let detail = format!(
                    "{} is to have 1 replica: one server has no place for the second copy, and what it keeps is lost with it; give it 2",
                    role.name
                );
                self.tell(Cause::new(Reason::NoServerForBackup, detail));
            }
        }
    }

    /// The memory that new pods of a place ask for, as long as none has run out of it.
    pub(super) fn memory_asked(&self, role: &Role, of_place: &Resources) -> Option<Quantity> {
        nodes::memory_asked(role, &self.planned(role, of_place))
    }

    /// What plans have new pods of a place ask for: what is said of the place counts before what is said of the role.
    pub(super) fn planned(&self, role: &Role, of_place: &Resources) -> Resources {
        let of_role = self.status.targets.get(&role.name).map(|target| target.resources.clone()).unwrap_or_default();
        of_role.overlaid_by(of_place)
    }

    pub(super) fn replicas(&self, role: &Role) -> u32 {
        self.status.targets.get(&role.name).map_or(0, |target| target.replicas)
    }
}

fn of_spec(role: &Role, generation: u64, resources: Resources, cause: Cause) -> Target {
    let replicas = role.size.initial();
    Target { replicas, resources, set_by: SetBy::Spec, generation, spec_replicas: replicas, cause }
}
