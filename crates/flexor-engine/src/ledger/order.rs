//! The order of the records in an epoch: sequential, shuffled batches, or shuffled records.
//!
//! A shuffle is a keyed permutation that is computed for one number at a time. It needs no memory, and any record is
//! found directly. It is a balanced Feistel network of [`ROUNDS`] rounds over the smallest even number of bits that
//! holds all numbers. A result outside the range is permuted again; fewer than four times on average, because the
//! domain is less than four times as large. `docs/guide/data.md` documents it for other implementations.

use serde::{Deserialize, Serialize};

use super::dataset_spec::DatasetSpec;

/// Enough for every bit to depend on every other. The network is not for secrecy.
const ROUNDS: u64 = 6;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "camelCase")]
pub enum Order {
    /// The order of the files.
    #[default]
    Sequential,
    /// Batches of adjacent records, in another order each epoch: for tables and files that are read in runs.
    ShuffledBatches {
        /// The same seed gives the same order.
        seed: u64,
    },
    /// Single records, in another order each epoch: for data with random access.
    ShuffledRecords {
        /// The same seed gives the same order.
        seed: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records {
    /// Adjacent records.
    Run { first: u64, count: u64 },
    /// Single records, in the order of the batch.
    Picked(Vec<u64>),
}

impl DatasetSpec {
    /// The records of a batch of an epoch.
    pub fn records_of(&self, epoch: u32, batch: u64) -> Records {
        let (size, count) = (self.batch.get(), self.batch_length(batch));
        match self.order {
            Order::Sequential => Records::Run { first: batch * size, count },
            Order::ShuffledBatches { seed } => {
                let full_batches = self.records / size;
                let key = key(seed, epoch);
                // The short batch lies behind this many full ones, elsewhere each epoch, and is the last batch.
                let cut = mix(key) % (full_batches + 1);
                let block = if batch < full_batches { permute(batch, full_batches, key) } else { cut };
                let left_over = self.records - full_batches * size;
                let is_behind = batch < full_batches && block >= cut;
                Records::Run { first: block * size + if is_behind { left_over } else { 0 }, count }
            }
            Order::ShuffledRecords { seed } => {
                let key = key(seed, epoch);
                let positions = batch * size..batch * size + count;
                Records::Picked(positions.map(|position| permute(position, self.records, key)).collect())
            }
        }
    }
}

fn key(seed: u64, epoch: u32) -> u64 {
    mix(seed ^ mix(u64::from(epoch)))
}

/// The image of `number`, one of `0..count`, under the permutation.
fn permute(number: u64, count: u64, key: u64) -> u64 {
    let bits = u64::BITS - (count - 1).leading_zeros();
    let half = bits.div_ceil(2).max(1);
    let mask = (1 << half) - 1;
    let mut place = number;
    loop {
        let (mut left, mut right) = (place >> half, place & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (mix(key ^ mix(right ^ (round << 32))) & mask));
        }
        place = left << half | right;
        if place < count {
            return place;
        }
    }
}

/// The finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(spec: &DatasetSpec, epoch: u32) -> Vec<u64> {
        (0..spec.batches())
            .flat_map(|batch| match spec.records_of(epoch, batch) {
                Records::Run { first, count } => (first..first + count).collect(),
                Records::Picked(records) => records,
            })
            .collect()
    }

    proptest! {
        #[test]
        fn every_order_visits_every_record_once(
            records in 0_u64..500, batch in 1_u64..40, epoch in 0_u32..5, seed: u64, kind in 0_usize..3,
        ) {
            let order = [Order::Sequential, Order::ShuffledBatches { seed }, Order::ShuffledRecords { seed }][kind];
            let spec = DatasetSpec::new("d", records, batch).unwrap().with_order(order);
            let mut visited = all(&spec, epoch);
            prop_assert_eq!(&visited, &all(&spec, epoch), "reproducible");
            visited.sort_unstable();
            prop_assert_eq!(visited, (0..records).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_shuffle_differs_from_epoch_to_epoch_and_from_seed_to_seed() {
        for order in [|seed| Order::ShuffledBatches { seed }, |seed| Order::ShuffledRecords { seed }] {
            let spec = |seed| DatasetSpec::new("d", 1003, 10).unwrap().with_order(order(seed));
            let one = all(&spec(1), 0);
            assert_ne!(one, (0..1003).collect::<Vec<_>>());
            assert_ne!(one, all(&spec(1), 1));
            assert_ne!(one, all(&spec(2), 0));
        }
    }

    #[test]
    fn the_short_batch_has_other_records_each_epoch() {
        let spec = DatasetSpec::new("d", 1003, 10).unwrap().with_order(Order::ShuffledBatches { seed: 7 });
        let last: Vec<_> = (0..8).map(|epoch| spec.records_of(epoch, spec.batches() - 1)).collect();
        assert!(last.iter().any(|records| *records != last[0]), "{last:?}");
        assert!(last.iter().all(|records| matches!(records, Records::Run { count: 3, .. })), "{last:?}");
    }

    #[test]
    fn a_shuffle_spreads_neighbours() {
        // With 10,000 records in random order two neighbours are 3,333 apart on average.
        let count = 10_000;
        let places: Vec<u64> = (0..count).map(|number| permute(number, count, key(3, 0))).collect();
        let apart: u64 = places.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum();
        let mean = apart / (count - 1);
        assert!((3_100..3_600).contains(&mean), "{mean}");
    }

    /// Numbers from docs/guide/data.md, computed with another program.
    #[test]
    fn the_order_is_the_documented_one() {
        let spec = DatasetSpec::new("d", 1_000_000_000, 8).unwrap().with_order(Order::ShuffledRecords { seed: 42 });
        let first =
            [659_178_254, 180_152_712, 299_869_921, 96_543_149, 169_666_996, 799_918_037, 284_101_965, 856_630_508];
        assert_eq!(spec.records_of(1, 0), Records::Picked(first.to_vec()));
    }
}
