//! The partition versions of pulled values. A push names the versions that its gradients were computed from.

use std::collections::BTreeMap;

use flexor_wire::ps::v1 as wire;

use crate::placement::PartitionId;

/// Version and generation of partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions(BTreeMap<PartitionId, wire::PartitionVersion>);

impl Versions {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Records versions. An earlier version of the same partition belongs to values that were pulled again.
    pub(super) fn record(&mut self, versions: Vec<wire::PartitionVersion>) {
        self.0.extend(versions.into_iter().filter_map(|one| Some((PartitionId::of_number(one.partition)?, one))));
    }

    /// The known versions of these partitions.
    pub(super) fn of<'a>(
        &'a self,
        partitions: impl IntoIterator<Item = &'a PartitionId>,
    ) -> impl Iterator<Item = wire::PartitionVersion> {
        partitions.into_iter().filter_map(|id| self.0.get(id).copied())
    }
}
