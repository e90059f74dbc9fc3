//! The keys of a batch, sorted by partition: so that each partition is locked once, and each server is sent its own.
//!
//! Servers and clients both do this. The memory is kept for the next batch.

use crate::placement::{NameHash, PARTITIONS, PartitionId, Place};

/// Which keys of a batch fall into which partition.
#[derive(Debug)]
pub struct Buckets {
    places: Vec<Place>,
    positions: Vec<u32>,
    /// Where in `positions` a partition begins; one more than there are partitions.
    starts: [u32; PARTITIONS + 1],
}

impl Default for Buckets {
    fn default() -> Self {
        Self { places: Vec::new(), positions: Vec::new(), starts: [0; PARTITIONS + 1] }
    }
}

impl Buckets {
    /// The buckets of these keys of a table.
    pub fn of(table: NameHash, keys: &[u64]) -> Self {
        let mut buckets = Self::default();
        buckets.sort(table, keys);
        buckets
    }

    /// Sorts the keys of another batch, in the memory of this one. A batch has at most `u32::MAX` keys.
    pub fn sort(&mut self, table: NameHash, keys: &[u64]) {
        self.places.clear();
        self.places.extend(keys.iter().map(|key| table.place(*key)));
        let mut counts = [0_u32; PARTITIONS];
        self.places.iter().for_each(|place| counts[place.partition().index()] += 1);
        let mut sum = 0;
        for (start, count) in self.starts.iter_mut().zip(counts) {
            *start = sum;
            sum += count;
        }
        self.starts[PARTITIONS] = sum;
        self.positions.resize(keys.len(), 0);
        let mut next = self.starts;
        for (position, place) in (0..).zip(&self.places) {
            let next = &mut next[place.partition().index()];
            self.positions[*next as usize] = position;
            *next += 1;
        }
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.places.len()
    }

    /// Which keys fall into a partition, by their position in the batch, in order.
    #[inline]
    pub fn positions(&self, partition: PartitionId) -> &[u32] {
        let place = partition.index();
        &self.positions[self.starts[place] as usize..self.starts[place + 1] as usize]
    }

    /// The partitions into which any key falls.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        PartitionId::all().filter(|partition| !self.positions(*partition).is_empty())
    }

    /// Where the key at a position lives.
    #[inline]
    pub(crate) fn place(&self, position: u32) -> Place {
        self.places[position as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_key_is_in_the_bucket_of_its_partition(batches in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..300), 1..4)) {
            let (table, mut buckets) = (NameHash::of("t"), Buckets::default());
            for keys in batches {
                buckets.sort(table, &keys);
                prop_assert_eq!(buckets.keys(), keys.len());
                let mut seen = vec![false; keys.len()];
                for partition in buckets.partitions() {
                    let positions = buckets.positions(partition);
                    prop_assert!(positions.is_sorted());
                    for position in positions {
                        prop_assert_eq!(table.place(keys[*position as usize]).partition(), partition);
                        seen[*position as usize] = true;
                    }
                }
                prop_assert!(seen.iter().all(|seen| *seen));
            }
        }
    }
}
