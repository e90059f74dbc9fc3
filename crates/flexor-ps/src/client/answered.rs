//! Which versions of partitions a client was answered with: what it may rely on, and what is lost if it is not there
//! any more.

use std::collections::BTreeMap;

use crate::placement::PartitionId;

/// The highest version that a client was answered with, of each beginning of each partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answered(BTreeMap<(PartitionId, u64), u64>);

impl Answered {
    /// Every partition, which beginning of it, and the version.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, u64, u64)> + '_ {
        self.0.iter().map(|((partition, origin), version)| (*partition, *origin, *version))
    }

    pub(super) fn take(&mut self, partition: PartitionId, origin: u64, version: u64) {
        let known = self.0.entry((partition, origin)).or_default();
        // Answers of one connection come in order, those of two servers need not.
        *known = (*known).max(version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_of_each_beginning_is_known() {
        let mut answered = Answered::default();
        let partition = PartitionId::of_number(7).unwrap();
        for (origin, version) in [(1, 3), (1, 9), (1, 8), (2, 4)] {
            answered.take(partition, origin, version);
        }
        assert_eq!(answered.iter().collect::<Vec<_>>(), [(partition, 1, 9), (partition, 2, 4)]);
    }
}
