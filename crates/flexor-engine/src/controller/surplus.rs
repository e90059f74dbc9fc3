//! Pods that no role needs: of a role that has become smaller, or that the job no longer has.

use flexor_model::{Reason, Role, RoleName};

use super::{Action, ObservedPod, Reconciler, SetBy, counted};
use crate::Cause;

impl Reconciler<'_> {
    /// Removes pods and slots that the target does not have, highest rank first.
    pub(super) fn remove_surplus(&mut self, role: &Role) {
        let Some(target) = self.status.targets.get(&role.name) else { return };
        let of_role = self.pods.of_role(&role.name);
        let surplus: Vec<&ObservedPod> = of_role.filter(|pod| !target.has(pod.rank)).rev().collect();
        let message = match target.set_by {
            SetBy::Planner => target.cause.message.clone(),
            SetBy::Spec | SetBy::Edit | SetBy::Plan(_) | SetBy::Auto(_) => {
                format!("{} is to have {}", role.name, counted(target.replicas as usize, "replica"))
            }
        };
        if let Some(slots) = self.status.roles.get_mut(&role.name) {
            slots.slots.retain(|rank, _| target.has(*rank));
        }
        for pod in surplus {
            self.delete(pod, Cause::new(Reason::NodeRemoved, message.clone()));
        }
    }

    /// Removes the pods of roles that were edited out of the job's description.
    pub(super) fn remove_pods_of_gone_roles(&mut self) {
        let roles = &self.observed.job.roles;
        let is_gone = |name: &&RoleName| roles.iter().all(|role| role.name != **name);
        let gone: Vec<&RoleName> = self.pods.roles().filter(is_gone).collect();
        for role in gone {
            let pods: Vec<&ObservedPod> = self.pods.of_role(role).rev().collect();
            for pod in pods {
                self.delete(pod, Cause::new(Reason::NodeRemoved, format!("the job has no role {role} any more")));
            }
        }
    }

    /// Deletes a pod, unless it is terminating. One whose node cannot end it is removed by force.
    pub(super) fn delete(&mut self, pod: &ObservedPod, cause: Cause) {
        if pod.deleting {
            return self.force_overdue(pod);
        }
        let (name, uid) = (pod.name.clone(), pod.uid.clone());
        self.act(Action::DeletePod { name, uid, force: false, cause });
    }

    /// A terminating pod on a node that does not answer keeps its name until it is removed by force.
    pub(super) fn force_overdue(&mut self, pod: &ObservedPod) {
        if pod.deleting && pod.overdue {
            let (name, uid) = (pod.name.clone(), pod.uid.clone());
            let cause = Cause::new(Reason::MachineLost, "its node does not answer, so it is removed by force");
            self.act(Action::DeletePod { name, uid, force: true, cause });
        }
    }
}
