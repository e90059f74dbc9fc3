//! Pods that nobody wants any more: of a role that has become smaller, or that the job has no longer.

use flexor_model::{Rank, Reason, Role, RoleName};

use super::{Action, ObservedPod, Reconciler, counted};
use crate::Cause;

impl Reconciler<'_> {
    /// The role has become smaller: the highest ranks go.
    pub(super) fn take_away_surplus(&mut self, role: &Role) {
        let replicas = self.replicas(role);
        let surplus: Vec<&ObservedPod> = self.places.from(&role.name, Rank(replicas)).rev().collect();
        for pod in surplus.into_iter().filter(|pod| !pod.deleting) {
            let detail = format!("{} is to have {}", role.name, counted(replicas as usize, "replica"));
            self.delete(pod, Cause::new(Reason::NodeRemoved, detail));
        }
        if let Some(slots) = self.status.roles.get_mut(&role.name) {
            slots.slots.retain(|rank, _| rank.0 < replicas);
        }
    }

    /// A role was edited out of the description: all its pods go.
    pub(super) fn take_away_gone_roles(&mut self) {
        let roles = &self.observed.job.roles;
        let is_gone = |name: &&RoleName| roles.iter().all(|role| role.name != **name);
        let gone: Vec<&RoleName> = self.places.roles().filter(is_gone).collect();
        for role in gone {
            let pods: Vec<&ObservedPod> = self.places.of_role(role).rev().collect();
            for pod in pods.into_iter().filter(|pod| !pod.deleting) {
                self.delete(pod, Cause::new(Reason::NodeRemoved, format!("the job has no role {role} any more")));
            }
        }
    }

    pub(super) fn delete(&mut self, pod: &ObservedPod, cause: Cause) {
        self.act(Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone(), cause });
    }
}
