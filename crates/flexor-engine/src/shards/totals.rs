//! What a dataset's records have come to: exact at any instant.

use serde::Serialize;

/// Counts of records, over all epochs that have begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// How many epochs have begun.
    pub epochs_begun: u32,
    /// How many are finished.
    pub epochs_finished: u32,
    /// All records of the epochs that have begun: accounted + quarantined + outstanding.
    pub expected: u64,
    /// Their batch was acknowledged.
    pub accounted: u64,
    /// Their batch was taken out, because the program fails of it.
    pub quarantined: u64,
    /// Neither yet.
    pub outstanding: u64,
    /// Of those: a worker has them, or will have them next.
    pub granted: u64,
    /// Of those: it is not known whether a worker has them, because the master was started again.
    pub in_doubt: u64,
    /// Handed out and taken back without an acknowledgement, so that a program may have gone through them twice.
    pub repeated_at_most: u64,
    /// Accounted for and made open again by a restore.
    pub rewound: u64,
}
