//! The end of a job, its deletion and its suspension: what is removed, and what stays for people to look at.

use std::time::Duration;

use flexor_model::{CleanPods, Reason, RoleKind};

use super::status::Phase;
use super::{Action, ObservedPod, Reconciler};
use crate::Cause;

impl Reconciler<'_> {
    /// The job is over: its servers end, and its clean-up policy is applied.
    pub(super) fn clean_up(&mut self) {
        let observed = self.observed;
        let clean = observed.job.end.clean_pods;
        for pod in observed.pods {
            let goes = match clean {
                CleanPods::All => true,
                CleanPods::Running => !pod.has_ended(),
                CleanPods::None => !pod.has_ended() && (self.is_server(pod) || self.status.phase == Phase::Failed),
            };
            if goes {
                self.delete(pod, Cause::new(Reason::JobOver, "the job is over"));
            }
        }
        for name in observed.services {
            self.act(Action::DeleteService { name: name.clone() });
        }
        let after = observed.job.end.remove_after_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        if let Some(at) = after.and_then(|after| Some(self.status.finished_at? + after)) {
            if at <= self.now {
                self.act(Action::DeleteJob { cause: Cause::new(Reason::JobOver, "it was to be removed by now") });
            } else {
                self.requeue(at);
            }
        }
    }

    /// Ends all pods of the job. What was charged stays charged.
    pub(super) fn suspend(&mut self) {
        let cause = Cause::new(Reason::JobSuspended, "its description says that it is suspended");
        let observed = self.observed;
        for slots in self.status.roles.values_mut() {
            for slot in slots.slots.values_mut().filter(|slot| slot.end.is_none()) {
                // A successor need not wait for the pod that it replaces: both end.
                slot.give_to_successor();
                (slot.seen, slot.not_before) = (false, None);
            }
        }
        for pod in observed.pods.iter().filter(|pod| !pod.has_ended()) {
            let slots = self.status.roles.get_mut(&pod.role).map(|slots| &mut slots.slots);
            // A pod that still terminates when the job goes on is no loss.
            if let Some(slot) = slots.and_then(|slots| slots.get_mut(&pod.rank))
                && slot.id == pod.id
                && !pod.deleting
            {
                slot.settled = Some(pod.uid.clone());
            }
            self.delete(pod, cause.clone());
        }
        self.status.short_since = None;
        if self.status.phase != Phase::Suspended {
            self.record(cause.clone());
            self.enter(Phase::Suspended, cause);
        }
    }

    /// Removes all pods and services, and then the job.
    pub(super) fn remove_everything(&mut self, cause: &Cause) {
        let observed = self.observed;
        for pod in observed.pods {
            self.delete(pod, cause.clone());
        }
        for name in observed.services {
            self.act(Action::DeleteService { name: name.clone() });
        }
        if observed.pods.is_empty() && observed.services.is_empty() && observed.executor.outstanding.is_empty() {
            self.act(Action::DeleteJob { cause: cause.clone() });
        }
    }

    fn is_server(&self, pod: &ObservedPod) -> bool {
        let role = self.observed.job.roles.iter().find(|role| role.name == pod.role);
        role.is_some_and(|role| matches!(role.kind, RoleKind::Master | RoleKind::ParameterServer))
    }
}
