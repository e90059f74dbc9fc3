//! The replacement of a pod under the same name, as long as the job still fills its slot.

use flexor_model::{NodeId, Rank, RoleName};

use crate::cluster::{ClusterView, JobKey, PodRecord};

/// A pod and the slot that it fills. It is a copy: the pod itself may be removed meanwhile.
pub(super) struct SlotPod {
    pub uid: String,
    name: String,
    job: JobKey,
    role: RoleName,
    rank: Rank,
    id: NodeId,
}

pub(super) enum Successor {
    Started(SlotPod),
    /// There will be one.
    Pending,
    None,
}

impl SlotPod {
    pub(super) fn of(pod: &PodRecord) -> Self {
        let (meta, desired) = (&pod.meta, &pod.meta.desired);
        Self {
            uid: meta.uid.clone(),
            name: desired.name.clone(),
            job: meta.job.clone(),
            role: desired.role.clone(),
            rank: desired.rank,
            id: desired.id,
        }
    }

    /// Whether `pod` replaces this one. Both may exist for a moment, this one being deleted.
    fn is_replaced_by(&self, pod: &PodRecord) -> bool {
        let meta = &pod.meta;
        meta.desired.name == self.name && meta.job == self.job && meta.uid != self.uid && !pod.is_deleting()
    }
}

/// The replacement of a pod that has ended.
pub(super) fn after(pod: &SlotPod, all: &ClusterView<'_>) -> Successor {
    // A pod that was not started has no log.
    let started =
        all.pods.values().find(|next| pod.is_replaced_by(next) && (next.supervisor.is_some() || next.status.is_some()));
    if let Some(next) = started {
        return Successor::Started(SlotPod::of(next));
    }
    let Some(job) = all.jobs.get(&pod.job).filter(|job| !job.deleting && !job.status.phase.is_over()) else {
        return Successor::None;
    };
    let slot = job.status.roles.get(&pod.role).and_then(|role| role.slots.get(&pod.rank));
    // In a role with increasing ids the replacement has another name.
    match slot {
        Some(slot) if slot.end.is_none() && slot.id == pod.id => Successor::Pending,
        Some(_) | None => Successor::None,
    }
}
