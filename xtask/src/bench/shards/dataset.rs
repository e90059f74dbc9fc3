//! The datasets of the race, as registered at our master.

use flexor_wire::master::v1 as wire;
use wire::dataset::Order;

/// Records of a batch, on both sides.
pub(super) const BATCH: u64 = 20;

/// The one dataset of a job.
pub(super) const NAME: &str = "records";

/// A dataset without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dataset {
    /// How many records an epoch has.
    pub(super) records: u64,
    pub(super) order: Order,
}

impl Dataset {
    /// Every record for itself.
    pub(super) const fn of_shuffled_records(records: u64) -> Dataset {
        Dataset { records, order: Order::ShuffledRecords }
    }

    /// Consecutive records stay together.
    pub(super) const fn of_shuffled_batches(records: u64) -> Dataset {
        Dataset { records, order: Order::ShuffledBatches }
    }

    /// Its name in results.
    pub(super) fn name(self) -> String {
        let shuffled = match self.order {
            Order::Sequential => "in order",
            Order::ShuffledBatches => "shuffled batch by batch",
            Order::ShuffledRecords => "shuffled one by one",
        };
        format!("{} records {shuffled}", grouped(self.records))
    }

    pub(super) fn wire(self) -> wire::Dataset {
        let Dataset { records, order } = self;
        wire::Dataset {
            name: NAME.to_owned(),
            records,
            batch: BATCH,
            order: order.into(),
            seed: 7,
            ..wire::Dataset::default()
        }
    }
}

/// A number with a comma after every three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_reads_as_people_write_it() {
        assert_eq!(Dataset::of_shuffled_records(1_000_000_000).name(), "1,000,000,000 records shuffled one by one");
        assert_eq!(Dataset::of_shuffled_batches(50).name(), "50 records shuffled batch by batch");
    }
}
