//! Which versions of partitions values were pulled with, so that a push can say what it was computed from.

use std::collections::BTreeMap;

use flexor_wire::ps::v1 as wire;

use crate::placement::PartitionId;

/// Versions of partitions, each of one beginning of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions(BTreeMap<PartitionId, wire::PartitionVersion>);

impl Versions {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes what a server says; what it said before of the same partition was of values that were asked for again.
    pub(super) fn take(&mut self, told: Vec<wire::PartitionVersion>) {
        self.0.extend(told.into_iter().filter_map(|one| Some((PartitionId::of_number(one.partition)?, one))));
    }

    /// Of some partitions, as far as they are known.
    pub(super) fn of<'a>(
        &'a self,
        partitions: impl IntoIterator<Item = &'a PartitionId>,
    ) -> impl Iterator<Item = wire::PartitionVersion> {
        partitions.into_iter().filter_map(|id| self.0.get(id).copied())
    }
}
