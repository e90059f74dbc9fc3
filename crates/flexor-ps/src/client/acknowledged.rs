//! The partition versions that servers acknowledged to a client. The master counts lost updates from them.

use std::collections::BTreeMap;

use flexor_model::Spans;
use flexor_model::spans::MOST_VERSION_RANGES;
use flexor_wire::master::v1 as master;

use crate::placement::PartitionId;

/// Acknowledged versions by partition and generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcknowledgedVersions(BTreeMap<(PartitionId, u64), Spans>);

impl AcknowledgedVersions {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all versions of another set. Where they have too many gaps for a report, it counts too many updates.
    pub fn extend(&mut self, other: &Self) {
        for (of, versions) in &other.0 {
            let known = self.0.entry(*of).or_default();
            known.extend(versions);
            known.join_lowest(MOST_VERSION_RANGES);
        }
    }

    /// The report to the master.
    pub fn to_wire(&self) -> Vec<master::AcknowledgedVersions> {
        let one = |((partition, generation), versions): (&(PartitionId, u64), &Spans)| master::AcknowledgedVersions {
            partition: partition.number(),
            generation: *generation,
            gaps: versions.to_gaps(),
        };
        self.0.iter().map(one).collect()
    }

    /// The versions of a report. Unknown partitions are left out.
    pub fn from_wire(report: &[master::AcknowledgedVersions]) -> Self {
        let known = report.iter().filter_map(|one| Some((PartitionId::of_number(one.partition)?, one)));
        Self(known.map(|(id, one)| ((id, one.generation), Spans::from_gaps(&one.gaps))).collect())
    }

    /// A push was applied as this version.
    pub(super) fn record(&mut self, partition: PartitionId, generation: u64, version: u64) {
        // A server that does not know the version answers with 0.
        if version > 0 {
            self.0.entry((partition, generation)).or_default().insert(version..version.saturating_add(1));
        }
    }

    /// These steps are committed.
    pub(super) fn record_steps(&mut self, partition: PartitionId, generation: u64, steps: u64) {
        self.0.entry((partition, generation)).or_default().insert(1..steps.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use flexor_model::PARTITIONS;
    use prost::Message;

    use super::*;

    #[test]
    fn the_versions_of_each_generation_are_kept() {
        let (mut acknowledged, mut more) = (AcknowledgedVersions::default(), AcknowledgedVersions::default());
        let partition = PartitionId::of_number(7).unwrap();
        for (generation, version) in [(1, 3), (1, 9), (1, 4), (2, 4), (2, 0)] {
            acknowledged.record(partition, generation, version);
        }
        more.record(partition, 1, 5);
        more.record_steps(partition, 3, 2);
        acknowledged.extend(&more);
        let of = |generation, gaps| master::AcknowledgedVersions { partition: 7, generation, gaps };
        assert_eq!(acknowledged.to_wire(), [of(1, vec![3, 3, 3, 1]), of(2, vec![4, 1]), of(3, vec![1, 2])]);
        assert_eq!(AcknowledgedVersions::from_wire(&acknowledged.to_wire()), acknowledged);
    }

    #[test]
    fn versions_with_many_gaps_stay_small_and_none_is_missing() {
        let mut acknowledged = AcknowledgedVersions::default();
        let partition = PartitionId::of_number(7).unwrap();
        for version in 1..=1000 {
            let mut one = AcknowledgedVersions::default();
            one.record(partition, 1, version * 2);
            acknowledged.extend(&one);
        }
        let gaps = &acknowledged.to_wire()[0].gaps;
        assert_eq!((gaps.len(), gaps.iter().sum::<u64>()), (2 * MOST_VERSION_RANGES, 2001), "up to version 2000");
        let versions = Spans::from_gaps(gaps);
        assert!((1..=1000).all(|version| versions.covers(&(version * 2..version * 2 + 1))));
    }

    #[test]
    fn the_largest_report_fits_into_a_message() {
        // The master takes eight generations of each partition, and messages of 16 MiB.
        let (generations, most_bytes) = (8, 16 << 20);
        let gaps = vec![1 << 55; 2 * MOST_VERSION_RANGES];
        let of = |(partition, generation)| master::AcknowledgedVersions { partition, generation, gaps: gaps.clone() };
        let all =
            (0..PARTITIONS).flat_map(|partition| (1..=generations).map(move |generation| (partition, generation)));
        let resume = master::Resume { versions: all.map(of).collect(), ..master::Resume::default() };
        assert!(resume.encoded_len() < most_bytes, "{} bytes", resume.encoded_len());
    }
}
