//! One epoch of a dataset: the state of each of its batches.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dataset_spec::DatasetSpec;
use super::position::EpochPosition;
use super::ranges::{Batches, Ranges};

/// An epoch that has begun and is not finished. Every batch is in exactly one state: never granted, returned,
/// suspected, granted, quarantined, or accounted for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Epoch {
    /// The first batch that was never granted; neither were those behind it.
    pub(super) fresh: u64,
    /// Granted before and returned: any worker may lease them.
    pub(super) returned: Ranges,
    /// The program may have failed on one of them. Each is leased to a worker that holds nothing else.
    pub(super) suspects: Ranges,
    pub(super) quarantined: Ranges,
    pub(super) granted: u64,
    /// Batches that are accounted for; `accounted` counts their records.
    pub(super) accounted_batches: u64,
    pub(super) accounted: u64,
}

/// Failures that are charged to the batches of an epoch. A rewind keeps them, or the program would fail on the same
/// batch for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Blame {
    pub(super) quarantined: Ranges,
    pub(super) suspected: Ranges,
    /// How often the program failed on a batch that its worker held alone.
    pub(super) failures: BTreeMap<u64, u32>,
}

impl Epoch {
    /// The epoch at a position.
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
            epoch.separate_blamed(blame);
        }
        epoch
    }

    /// Moves quarantined and suspected batches out of the available ones.
    fn separate_blamed(&mut self, blame: &Blame) {
        let end = blame.quarantined.end().max(blame.suspected.end());
        if end > self.fresh {
            self.returned.insert(Batches::new(self.fresh, end - self.fresh));
            self.fresh = end;
        }
        for batches in blame.quarantined.iter() {
            self.returned.remove(batches).iter().for_each(|moved| self.quarantined.insert(moved));
        }
        for batches in blame.suspected.iter() {
            self.returned.remove(batches).iter().for_each(|moved| self.suspects.insert(moved));
        }
    }

    /// How many batches any worker can be granted.
    pub(super) fn available(&self, batches: u64) -> u64 {
        self.returned.count() + batches.saturating_sub(self.fresh)
    }

    /// Up to `most` of them. Returned batches come first, because workers may wait for the end of the epoch.
    pub(super) fn next(&self, most: u64, batches: u64) -> Option<Batches> {
        self.returned.first(most).or_else(|| {
            let count = most.min(batches.saturating_sub(self.fresh));
            (count > 0).then(|| Batches::new(self.fresh, count))
        })
    }

    /// Moves batches to the granted ones.
    pub(super) fn grant(&mut self, batches: Batches) {
        let moved = self.returned.remove(batches).count() + self.suspects.remove(batches).count();
        if moved < batches.count {
            self.fresh = self.fresh.max(batches.end());
        }
        self.granted += batches.count;
    }

    pub(super) fn is_finished(&self, batches: u64) -> bool {
        self.available(batches) == 0 && self.suspects.is_empty() && self.granted == 0
    }

    /// The position of the epoch while these batches are granted.
    pub(super) fn position(&self, granted: impl Iterator<Item = Batches>) -> EpochPosition {
        let mut open = self.returned.clone();
        self.suspects.iter().chain(granted).for_each(|batches| open.insert(batches));
        EpochPosition { fresh: self.fresh, open, quarantined: self.quarantined.clone() }
    }
}
