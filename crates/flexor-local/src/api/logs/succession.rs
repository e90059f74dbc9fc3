//! Who comes after a pod: the next one under its name, as long as its job still wants somebody in its place.

use flexor_model::{NodeId, Rank, RoleName};

use crate::cluster::{Everything, JobKey, PodRecord};

/// A pod, by the place that it has. Holds nothing of the pod itself, which may go meanwhile.
pub(super) struct Occupant {
    /// Its unique id.
    pub uid: String,
    name: String,
    job: JobKey,
    role: RoleName,
    rank: Rank,
    id: NodeId,
}

/// Who is next.
pub(super) enum Next {
    /// This one, which has begun.
    Pod(Occupant),
    /// Somebody, at some time.
    NotYet,
    /// Nobody.
    Nobody,
}

impl Occupant {
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

    /// Whether a pod has come in the place of this one. Both may be there for a moment, one on its way out.
    fn is_before(&self, pod: &PodRecord) -> bool {
        let meta = &pod.meta;
        meta.desired.name == self.name && meta.job == self.job && meta.uid != self.uid && !pod.is_deleting()
    }
}

/// Who comes after a pod that has ended.
pub(super) fn after(pod: &Occupant, all: &Everything<'_>) -> Next {
    // One that nothing was started of prints nothing, and has no place to print to.
    let begun =
        all.pods.values().find(|next| pod.is_before(next) && (next.supervisor.is_some() || next.status.is_some()));
    if let Some(next) = begun {
        return Next::Pod(Occupant::of(next));
    }
    let Some(job) = all.jobs.get(&pod.job).filter(|job| !job.deleting && !job.status.phase.is_over()) else {
        return Next::Nobody;
    };
    let slot = job.status.roles.get(&pod.role).and_then(|role| role.slots.get(&pod.rank));
    // Where every life of a place has a number of its own, the next one has another name.
    match slot {
        Some(slot) if slot.end.is_none() && slot.id == pod.id => Next::NotYet,
        Some(_) | None => Next::Nobody,
    }
}
