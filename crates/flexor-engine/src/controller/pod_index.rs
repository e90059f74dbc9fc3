//! The pods of a job by role and rank.
//!
//! Built once a pass: a job may have thousands of pods, and every slot asks for its own.

use std::collections::BTreeMap;

use flexor_model::{Rank, RoleName};

use super::ObservedPod;

/// All pods of a job, by role and rank.
pub(super) struct PodIndex<'a>(BTreeMap<&'a RoleName, RolePods<'a>>);

#[derive(Default)]
struct RolePods<'a> {
    ranks: BTreeMap<Rank, Vec<&'a ObservedPod>>,
    /// One more than the greatest id.
    next_id: u32,
}

impl<'a> PodIndex<'a> {
    pub(super) fn of(pods: &'a [ObservedPod]) -> Self {
        let mut roles: BTreeMap<&RoleName, RolePods<'_>> = BTreeMap::new();
        for pod in pods {
            let role = roles.entry(&pod.role).or_default();
            role.ranks.entry(pod.rank).or_default().push(pod);
            role.next_id = role.next_id.max(pod.id.0 + 1);
        }
        Self(roles)
    }

    /// The pods of one slot: the one that fills it, those that it replaced, and its successor.
    pub(super) fn at(&self, role: &RoleName, rank: Rank) -> &[&'a ObservedPod] {
        self.0.get(role).and_then(|role| role.ranks.get(&rank)).map_or(&[], Vec::as_slice)
    }

    /// The pods of a role from this rank on, by rank.
    pub(super) fn from(&self, role: &RoleName, rank: Rank) -> impl DoubleEndedIterator<Item = &'a ObservedPod> {
        let ranks = self.0.get(role).into_iter().flat_map(move |role| role.ranks.range(rank..));
        ranks.flat_map(|(_, pods)| pods.iter().copied())
    }

    /// All pods of a role, by rank.
    pub(super) fn of_role(&self, role: &RoleName) -> impl DoubleEndedIterator<Item = &'a ObservedPod> {
        self.from(role, Rank(0))
    }

    /// The roles that have pods.
    pub(super) fn roles(&self) -> impl Iterator<Item = &'a RoleName> {
        self.0.keys().copied()
    }

    /// One more than the greatest id of a role's pods.
    pub(super) fn next_id(&self, role: &RoleName) -> u32 {
        self.0.get(role).map_or(0, |role| role.next_id)
    }
}
