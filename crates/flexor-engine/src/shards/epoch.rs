//! One pass through a dataset: which of its batches are where.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dataset::DatasetSpec;
use super::position::EpochPosition;
use super::ranges::{Batches, Ranges};

/// An epoch that has begun and is not finished. Every batch is in one place: never granted, returned, suspected,
/// granted, quarantined, or accounted for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Epoch {
    /// Batches from this one on were never granted.
    pub(super) fresh: u64,
    /// Granted once and not done, for anybody to take.
    pub(super) returned: Ranges,
    /// Not granted, because the program may have failed of one of them: they are leased alone.
    pub(super) suspects: Ranges,
    pub(super) quarantined: Ranges,
    /// How many are granted.
    pub(super) granted: u64,
    /// How many are accounted for, and their records.
    pub(super) accounted_batches: u64,
    pub(super) accounted: u64,
}

/// What is held against the batches of an epoch. It stays when the ledger is wound back, or a program would fail of the
/// same batch again and again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Blame {
    pub(super) quarantined: Ranges,
    pub(super) suspected: Ranges,
    /// How often the program has failed of a batch by itself.
    pub(super) failures: BTreeMap<u64, u32>,
}

impl Epoch {
    /// An epoch that stands where `position` says.
    pub(super) fn at(position: &EpochPosition, spec: &DatasetSpec, blame: Option<&Blame>) -> Self {
        let mut epoch = Epoch {
            fresh: position.fresh,
            returned: position.open.clone(),
            quarantined: position.quarantined.clone(),
            ..Epoch::default()
        };
        epoch.accounted_batches = position.fresh - position.open.count() - position.quarantined.count();
        let records = |ranges: &Ranges| ranges.iter().map(|batches| spec.records_in(batches)).sum::<u64>();
        let known = spec.records_in(Batches::new(0, position.fresh));
        epoch.accounted = known - records(&position.open) - records(&position.quarantined);
        if let Some(blame) = blame {
            epoch.set_apart(blame);
        }
        epoch
    }

    /// Takes what is blamed out of what can be had.
    fn set_apart(&mut self, blame: &Blame) {
        let end = blame.quarantined.end().max(blame.suspected.end());
        if end > self.fresh {
            self.returned.insert(Batches::new(self.fresh, end - self.fresh));
            self.fresh = end;
        }
        for batches in blame.quarantined.iter() {
            self.returned.remove(batches).iter().for_each(|found| self.quarantined.insert(found));
        }
        for batches in blame.suspected.iter() {
            self.returned.remove(batches).iter().for_each(|found| self.suspects.insert(found));
        }
    }

    /// Batches that can be granted without a condition.
    pub(super) fn available(&self, batches: u64) -> u64 {
        self.returned.count() + batches.saturating_sub(self.fresh)
    }

    /// Up to `most` of them: those that came back first, because somebody may wait for the end of the epoch.
    pub(super) fn next(&self, most: u64, batches: u64) -> Option<Batches> {
        self.returned.first(most).or_else(|| {
            let count = most.min(batches.saturating_sub(self.fresh));
            (count > 0).then(|| Batches::new(self.fresh, count))
        })
    }

    /// Takes granted batches out of where they were.
    pub(super) fn grant(&mut self, batches: Batches) {
        let found = self.returned.remove(batches).count() + self.suspects.remove(batches).count();
        if found < batches.count {
            self.fresh = self.fresh.max(batches.end());
        }
        self.granted += batches.count;
    }

    /// Whether nothing is left to do.
    pub(super) fn is_finished(&self, batches: u64) -> bool {
        self.available(batches) == 0 && self.suspects.is_empty() && self.granted == 0
    }

    /// Where it stands, when these of it are granted.
    pub(super) fn position(&self, granted: impl Iterator<Item = Batches>) -> EpochPosition {
        let mut open = self.returned.clone();
        self.suspects.iter().chain(granted).for_each(|batches| open.insert(batches));
        EpochPosition { fresh: self.fresh, open, quarantined: self.quarantined.clone() }
    }
}
