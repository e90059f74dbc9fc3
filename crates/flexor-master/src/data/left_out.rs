//! How many records were left out of their batches, because they are damaged or mean nothing. A worker says so with the
//! acknowledgement of each batch, and it counts if that accounts for the batch: so no record counts twice, whoever went
//! through it before.
//!
//! The counts go where the ledger goes: into the journal with the acknowledgement, into positions, and back with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use flexor_engine::shards::{Batches, Fact, GrantId, Position, Shards};
use serde::{Deserialize, Serialize};

/// Batches that are done, and what a worker says of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Of which lease.
    pub grant: GrantId,
    /// Which.
    pub batches: Batches,
    /// How many of their records were left out.
    pub left_out: u64,
    /// The step that they belong to, where some were left out and there are steps.
    pub step: Option<u64>,
}

impl From<(GrantId, Batches)> for Done {
    fn from((grant, batches): (GrantId, Batches)) -> Self {
        Self { grant, batches, left_out: 0, step: None }
    }
}

/// Counts of records by dataset, in all epochs; one without any is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeftOut(BTreeMap<Arc<str>, Counts>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    records: u64,
    /// Of those: by step, as long as it may not be taken. Positions are cut at whole steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    by_step: BTreeMap<u64, u64>,
}

impl LeftOut {
    /// How many of a dataset.
    pub fn of(&self, dataset: &str) -> u64 {
        self.0.get(dataset).map_or(0, |counts| counts.records)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts what is said of batches of a dataset, as far as these facts account for them.
    pub(super) fn count(&mut self, dataset: &str, done: &Done, facts: &[Fact], shards: &Shards) {
        let Some(spec) = shards.dataset(dataset) else { return };
        let is_of = |batches: &Batches| done.batches.first <= batches.first && batches.end() <= done.batches.end();
        let accounted = facts.iter().filter_map(|fact| match fact {
            Fact::Accounted { grant, batches } if *grant == done.grant && is_of(batches) => {
                Some(spec.records_in(*batches))
            }
            _ => None,
        });
        let records = done.left_out.min(accounted.sum());
        if records == 0 {
            return;
        }
        let counts = self.0.entry(Arc::clone(&spec.name)).or_default();
        counts.records += records;
        if let Some(taken) = shards.steps_taken(dataset) {
            counts.by_step = counts.by_step.split_off(&taken);
            let step = done.step.unwrap_or(taken);
            if step >= taken {
                *counts.by_step.entry(step).or_default() += records;
            }
        }
    }

    /// What belongs to the position of a ledger.
    pub(super) fn at_position(&self, shards: &Shards) -> Self {
        let of_taken = |(dataset, counts): (&Arc<str>, &Counts)| {
            let taken = shards.steps_taken(dataset).unwrap_or(u64::MAX);
            let open: u64 = counts.by_step.range(taken..).map(|(_, records)| records).sum();
            let records = counts.records - open;
            (records > 0).then(|| (Arc::clone(dataset), Counts { records, by_step: BTreeMap::new() }))
        };
        Self(self.0.iter().filter_map(of_taken).collect())
    }

    /// Whether it can be what was left out until a position: a token may come from anywhere.
    pub(super) fn is_possible(&self, position: &Position) -> bool {
        self.0.iter().all(|(dataset, counts)| {
            let most = position.datasets.get(dataset).map(|at| u64::from(at.begun).saturating_mul(at.spec.records));
            counts.by_step.is_empty() && most.is_some_and(|most| counts.records <= most)
        })
    }
}
