//! Counts skipped records: damaged ones, and those that cannot be parsed.
//!
//! A worker reports them with the acknowledgement of a batch. They count only if that acknowledgement accounts for the
//! batch, so no record counts twice. The counts are journaled with the acknowledgement, stored in positions and
//! restored with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use flexor_engine::ledger::{Batches, Fact, GrantId, Ledger, Position};
use serde::{Deserialize, Serialize};

/// Acknowledged batches of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcknowledgedBatches {
    pub grant: GrantId,
    pub batches: Batches,
    /// How many of their records the worker skipped.
    pub skipped_records: u64,
    /// Their step, in synchronous training, if records were skipped.
    pub step: Option<u64>,
}

impl From<(GrantId, Batches)> for AcknowledgedBatches {
    fn from((grant, batches): (GrantId, Batches)) -> Self {
        Self { grant, batches, skipped_records: 0, step: None }
    }
}

/// Skipped records by dataset, over all epochs. A dataset without any is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SkippedRecords(BTreeMap<Arc<str>, DatasetCounts>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DatasetCounts {
    records: u64,
    /// The part of `records` that belongs to incomplete steps, by step. Positions are cut at complete steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    by_step: BTreeMap<u64, u64>,
}

impl SkippedRecords {
    pub fn of(&self, dataset: &str) -> u64 {
        self.0.get(dataset).map_or(0, |counts| counts.records)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// DatasetCounts the skipped records of acknowledged batches, as far as these facts account for them.
    pub(super) fn count(&mut self, dataset: &str, done: &AcknowledgedBatches, facts: &[Fact], ledger: &Ledger) {
        let Some(spec) = ledger.dataset(dataset) else { return };
        let is_of = |batches: &Batches| done.batches.first <= batches.first && batches.end() <= done.batches.end();
        let accounted = facts.iter().filter_map(|fact| match fact {
            Fact::Accounted { grant, batches } if *grant == done.grant && is_of(batches) => {
                Some(spec.records_in(*batches))
            }
            _ => None,
        });
        let records = done.skipped_records.min(accounted.sum());
        if records == 0 {
            return;
        }
        let counts = self.0.entry(Arc::clone(&spec.name)).or_default();
        counts.records += records;
        if let Some(taken) = ledger.steps_taken(dataset) {
            counts.by_step = counts.by_step.split_off(&taken);
            let step = done.step.unwrap_or(taken);
            if step >= taken {
                *counts.by_step.entry(step).or_default() += records;
            }
        }
    }

    /// The counts at the ledger's position.
    pub(super) fn at_position(&self, ledger: &Ledger) -> Self {
        let of_taken = |(dataset, counts): (&Arc<str>, &DatasetCounts)| {
            let taken = ledger.steps_taken(dataset).unwrap_or(u64::MAX);
            let open: u64 = counts.by_step.range(taken..).map(|(_, records)| records).sum();
            let records = counts.records - open;
            (records > 0).then(|| (Arc::clone(dataset), DatasetCounts { records, by_step: BTreeMap::new() }))
        };
        Self(self.0.iter().filter_map(of_taken).collect())
    }

    /// Whether the counts are consistent with a position. Tokens come from outside.
    pub(super) fn is_possible(&self, position: &Position) -> bool {
        self.0.iter().all(|(dataset, counts)| {
            let most = position.datasets.get(dataset).map(|at| u64::from(at.begun).saturating_mul(at.spec.records));
            counts.by_step.is_empty() && most.is_some_and(|most| counts.records <= most)
        })
    }
}
