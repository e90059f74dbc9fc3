//! A position of the ledger, which a program stores in its own checkpoint so that model and data are restored together.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::dataset_spec::DatasetSpec;
use super::ranges::Ranges;

/// The records that are accounted for, at one moment. Granted batches count as open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub datasets: BTreeMap<Arc<str>, DatasetPosition>,
}

/// The position of one dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetPosition {
    pub spec: DatasetSpec,
    pub begun: u32,
    /// Accounted records of the finished epochs.
    pub accounted: u64,
    /// Quarantined records of the finished epochs.
    pub quarantined: u64,
    /// Quarantined batches of the finished epochs, by epoch.
    #[serde(default)]
    pub quarantined_batches: BTreeMap<u32, Ranges>,
    /// Epochs that had begun and were not finished.
    pub epochs: BTreeMap<u32, EpochPosition>,
}

impl DatasetPosition {
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

    /// Whether the position is consistent. Tokens come from outside.
    pub(super) fn is_possible(&self) -> bool {
        let batches = self.spec.batches();
        let epochs_exist = self.begun == 0 || self.spec.has_epoch(self.begun - 1);
        let finished = u64::from(self.begun).checked_sub(self.epochs.len() as u64);
        let finished_records = finished.and_then(|finished| finished.checked_mul(self.spec.records));
        let finished_sum = self.accounted.checked_add(self.quarantined);
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
            && finished_sum == finished_records
    }
}

/// The open part of an epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochPosition {
    /// The first batch that was never granted; neither were those behind it.
    pub fresh: u64,
    /// Open batches before `fresh`.
    pub open: Ranges,
    pub quarantined: Ranges,
}
