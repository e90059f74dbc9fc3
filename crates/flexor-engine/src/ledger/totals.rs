//! Record counts of a dataset, exact at any instant.

use serde::Serialize;

/// Counts of records, over all epochs that have begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub epochs_begun: u32,
    pub epochs_finished: u32,
    /// All records of the epochs that have begun: accounted + quarantined + outstanding.
    pub expected: u64,
    /// Their batch was acknowledged.
    pub accounted: u64,
    /// The program fails on their batch.
    pub quarantined: u64,
    /// Neither accounted for nor quarantined.
    pub outstanding: u64,
    /// Outstanding records that are granted to a worker.
    pub granted: u64,
    /// Outstanding records whose worker has not resumed since the master was restarted.
    pub in_doubt: u64,
    /// Leased and returned without an acknowledgement. A program may have processed them twice.
    pub repeated_at_most: u64,
    /// Accounted for and reopened by a restore.
    pub rewound: u64,
    /// The most that were accounted for in a part of the journal that is lost. They count in `repeated_at_most` too.
    pub reopened_at_most: u64,
}
