//! The partition versions that servers acknowledged to a client. The master counts lost updates from them.

use std::collections::BTreeMap;

use crate::placement::PartitionId;

/// The highest acknowledged version by partition and generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcknowledgedVersions(BTreeMap<(PartitionId, u64), u64>);

impl AcknowledgedVersions {
    /// Partition, generation, version.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, u64, u64)> + '_ {
        self.0.iter().map(|((partition, generation), version)| (*partition, *generation, *version))
    }

    pub(super) fn record(&mut self, partition: PartitionId, generation: u64, version: u64) {
        let known = self.0.entry((partition, generation)).or_default();
        // Replies of one connection come in order, those of two servers need not.
        *known = (*known).max(version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_of_each_generation_is_kept() {
        let mut acknowledged = AcknowledgedVersions::default();
        let partition = PartitionId::of_number(7).unwrap();
        for (generation, version) in [(1, 3), (1, 9), (1, 8), (2, 4)] {
            acknowledged.record(partition, generation, version);
        }
        assert_eq!(acknowledged.iter().collect::<Vec<_>>(), [(partition, 1, 9), (partition, 2, 4)]);
    }
}
