//! One dataset: what has become of each of its epochs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dataset::DatasetSpec;
use super::epoch::{Blame, Epoch};
use super::position::EpochPosition;
use super::ranges::{Batches, Ranges};

/// A dataset and its epochs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Dataset {
    pub(super) spec: DatasetSpec,
    pub(super) begun: u32,
    /// Those that have begun and are not finished.
    pub(super) epochs: BTreeMap<u32, Epoch>,
    pub(super) blame: BTreeMap<u32, Blame>,
    /// Records of finished epochs.
    pub(super) accounted: u64,
    pub(super) quarantined: u64,
    pub(super) repeated: u64,
    pub(super) rewound: u64,
}

impl Dataset {
    pub(super) fn new(spec: DatasetSpec) -> Self {
        Self {
            spec,
            begun: 0,
            epochs: BTreeMap::new(),
            blame: BTreeMap::new(),
            accounted: 0,
            quarantined: 0,
            repeated: 0,
            rewound: 0,
        }
    }

    /// An epoch begins, with what is held against its batches from before the ledger was wound back.
    pub(super) fn begin(&mut self, number: u32) {
        self.begun = self.begun.max(number + 1);
        let epoch = Epoch::at(&EpochPosition::default(), &self.spec, self.blame.get(&number));
        self.epochs.insert(number, epoch);
        self.finish(number);
    }

    pub(super) fn account(&mut self, number: u32, batches: &Ranges) {
        let records = batches.iter().map(|batches| self.spec.records_in(batches)).sum::<u64>();
        let Some(epoch) = self.epochs.get_mut(&number) else { return };
        epoch.granted -= batches.count();
        epoch.accounted_batches += batches.count();
        epoch.accounted += records;
        if let Some(blame) = self.blame.get_mut(&number) {
            for batches in batches.iter() {
                let cleared = blame.suspected.remove(batches);
                for batch in cleared.iter().flat_map(|cleared| cleared.first..cleared.end()) {
                    blame.failures.remove(&batch);
                }
            }
        }
        self.finish(number);
    }

    pub(super) fn take_back(&mut self, number: u32, batches: &Ranges, suspects: bool) {
        let Some(epoch) = self.epochs.get_mut(&number) else { return };
        epoch.granted -= batches.count();
        let to = if suspects { &mut epoch.suspects } else { &mut epoch.returned };
        batches.iter().for_each(|batches| to.insert(batches));
        if suspects {
            let blame = self.blame.entry(number).or_default();
            batches.iter().for_each(|batches| blame.suspected.insert(batches));
        }
    }

    pub(super) fn quarantine(&mut self, number: u32, batch: Batches) {
        let Some(epoch) = self.epochs.get_mut(&number) else { return };
        epoch.suspects.remove(batch);
        epoch.quarantined.insert(batch);
        let blame = self.blame.entry(number).or_default();
        blame.suspected.remove(batch);
        blame.quarantined.insert(batch);
        self.finish(number);
    }

    /// Whether some of its batches are leased only to who has nothing else.
    pub(super) fn has_suspects(&self) -> bool {
        self.epochs.values().any(|epoch| !epoch.suspects.is_empty())
    }

    /// Adds an epoch with nothing left to do to those that are finished.
    pub(super) fn finish(&mut self, number: u32) {
        let batches = self.spec.batches();
        if let Some(epoch) = self.epochs.get(&number)
            && epoch.is_finished(batches)
        {
            self.accounted += epoch.accounted;
            self.quarantined += epoch.quarantined.iter().map(|batches| self.spec.records_in(batches)).sum::<u64>();
            self.epochs.remove(&number);
        }
    }
}
