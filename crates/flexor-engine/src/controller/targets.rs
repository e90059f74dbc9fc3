//! How large each role is to be: what the job's description says, until somebody says otherwise.

use flexor_model::{Reason, Resources, Role};

use super::Draft;
use super::status::{SetBy, Target};
use crate::Because;

impl Draft<'_> {
    /// Takes over the sizes of the description: of roles that have none yet, and of those whose size was edited.
    pub(super) fn take_over_sizes(&mut self) {
        let generation = self.observed.generation;
        for role in &self.observed.job.roles {
            let initial = role.size.initial();
            match self.status.targets.get_mut(&role.name) {
                Some(target) if target.spec_replicas == initial => target.generation = generation,
                Some(target) => {
                    let detail = format!("{} replicas of {}, as the job says now", initial, role.name);
                    let because = Because::new(Reason::SizeFromSpec, detail);
                    let resources = target.resources.clone();
                    *target = of_spec(role, generation, resources, because.clone());
                    self.tell(because);
                }
                None => {
                    let detail = format!("{} replicas of {}, as the job says", initial, role.name);
                    let because = Because::new(Reason::SizeFromSpec, detail);
                    let target = of_spec(role, generation, Resources::default(), because);
                    self.status.targets.insert(role.name.clone(), target);
                }
            }
        }
        let roles = &self.observed.job.roles;
        self.status.targets.retain(|name, _| roles.iter().any(|role| role.name == *name));
    }

    pub(super) fn replicas(&self, role: &Role) -> u32 {
        self.status.targets.get(&role.name).map_or(0, |target| target.replicas)
    }
}

fn of_spec(role: &Role, generation: u64, resources: Resources, because: Because) -> Target {
    let replicas = role.size.initial();
    Target { replicas, resources, set_by: SetBy::Spec, generation, spec_replicas: replicas, because }
}
