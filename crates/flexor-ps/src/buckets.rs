//! The keys of a batch, grouped by partition.
//!
//! A server uses the groups to lock each partition once. A client uses them to send each server its own keys. The
//! buffers are reused for the next batch.

use crate::placement::{KeyHash, NameHash, PARTITIONS, PartitionId};

/// Positions of the keys of a batch, grouped by partition (a counting sort).
#[derive(Debug)]
pub struct Buckets {
    hashes: Vec<KeyHash>,
    positions: Vec<u32>,
    /// The start of each partition in `positions`, and the total as last entry.
    starts: [u32; PARTITIONS + 1],
}

impl Default for Buckets {
    fn default() -> Self {
        Self { hashes: Vec::new(), positions: Vec::new(), starts: [0; PARTITIONS + 1] }
    }
}

impl Buckets {
    /// Groups the keys of a table.
    pub fn of(table: NameHash, keys: &[u64]) -> Self {
        let mut buckets = Self::default();
        buckets.sort(table, keys);
        buckets
    }

    /// Groups the keys of another batch in the same buffers. A batch has at most `u32::MAX` keys.
    pub fn sort(&mut self, table: NameHash, keys: &[u64]) {
        self.hashes.clear();
        self.hashes.extend(keys.iter().map(|key| table.hash_key(*key)));
        let mut counts = [0_u32; PARTITIONS];
        self.hashes.iter().for_each(|hash| counts[hash.partition().index()] += 1);
        let mut sum = 0;
        for (start, count) in self.starts.iter_mut().zip(counts) {
            *start = sum;
            sum += count;
        }
        self.starts[PARTITIONS] = sum;
        self.positions.resize(keys.len(), 0);
        let mut next = self.starts;
        for (position, hash) in (0..).zip(&self.hashes) {
            let next = &mut next[hash.partition().index()];
            self.positions[*next as usize] = position;
            *next += 1;
        }
    }

    pub fn keys(&self) -> usize {
        self.hashes.len()
    }

    /// The positions in the batch of the keys that fall into a partition, ascending.
    #[inline]
    pub fn positions(&self, partition: PartitionId) -> &[u32] {
        let index = partition.index();
        &self.positions[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    /// The partitions with at least one key.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        PartitionId::all().filter(|partition| !self.positions(*partition).is_empty())
    }

    /// The hash of the key at a position.
    #[inline]
    pub(crate) fn key_hash(&self, position: u32) -> KeyHash {
        self.hashes[position as usize]
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
                        prop_assert_eq!(table.hash_key(keys[*position as usize]).partition(), partition);
                        seen[*position as usize] = true;
                    }
                }
                prop_assert!(seen.iter().all(|seen| *seen));
            }
        }
    }
}
