//! Where the ledger stands, to be kept in a program's own checkpoint: model and data move together.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::dataset::DatasetSpec;
use super::ranges::Ranges;

/// What is accounted for, of every dataset, at one moment. What was granted then counts as not done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// By name.
    pub datasets: BTreeMap<Arc<str>, DatasetPosition>,
}

/// What is accounted for of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetPosition {
    /// What it was.
    pub spec: DatasetSpec,
    /// How many epochs had begun.
    pub begun: u32,
    /// How many records of the finished ones were accounted for.
    pub accounted: u64,
    /// How many of them were quarantined.
    pub quarantined: u64,
    /// Which batches those were, by epoch.
    #[serde(default)]
    pub quarantined_batches: BTreeMap<u32, Ranges>,
    /// Those that had begun and were not finished.
    pub epochs: BTreeMap<u32, EpochPosition>,
}

impl DatasetPosition {
    /// Where a dataset stands at first.
    pub(super) fn start(spec: &DatasetSpec) -> Self {
        Self {
            spec: spec.clone(),
            begun: 0,
            accounted: 0,
            quarantined: 0,
            quarantined_batches: BTreeMap::new(),
            epochs: BTreeMap::new(),
        }
    }

    pub(super) fn has_finished(&self, epoch: u32) -> bool {
        epoch < self.begun && !self.epochs.contains_key(&epoch)
    }

    /// Whether it can be true: a token may come from anywhere.
    pub(super) fn is_possible(&self) -> bool {
        let batches = self.spec.batches();
        let epochs_exist = self.begun == 0 || self.spec.has_epoch(self.begun - 1);
        let finished = u64::from(self.begun).checked_sub(self.epochs.len() as u64);
        let finished_records = finished.and_then(|finished| finished.checked_mul(self.spec.records));
        let told = self.accounted.checked_add(self.quarantined);
        let epochs_are_possible = self.epochs.iter().all(|(number, epoch)| {
            let apart = epoch.quarantined.iter().all(|batches| epoch.open.within(batches).is_empty());
            let inside = epoch.open.end().max(epoch.quarantined.end()) <= epoch.fresh && epoch.fresh <= batches;
            *number < self.begun && apart && inside
        });
        let named_are_possible =
            self.quarantined_batches.iter().all(|(number, named)| self.has_finished(*number) && named.end() <= batches);
        let named = self.quarantined_batches.values().flat_map(Ranges::iter).map(|named| self.spec.records_in(named));
        let names_add_up = named.fold(0, u64::saturating_add) == self.quarantined;
        epochs_exist
            && epochs_are_possible
            && named_are_possible
            && names_add_up
            && finished_records.is_some()
            && told == finished_records
    }
}

/// What is left of an epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochPosition {
    /// Batches from this one on were never granted.
    pub fresh: u64,
    /// Before that, these are not done.
    pub open: Ranges,
    /// Taken out because the program fails of them.
    pub quarantined: Ranges,
}
