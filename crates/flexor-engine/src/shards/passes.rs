//! One dataset: what has become of each of its epochs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::dataset::DatasetSpec;
use super::epoch::{Blame, Epoch};
use super::order::Order;
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
    /// What the slowest worker needs for a batch, roughly; known also to a master that was started again.
    #[serde(default)]
    pub(super) batch_time: Option<Duration>,
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
            batch_time: None,
        }
    }

    /// An epoch begins, with what is held against its batches from before the ledger was wound back.
    pub(super) fn begin(&mut self, number: u32) {
        self.begun = self.begun.max(number + 1);
        self.carry_over_blame(number);
        let epoch = Epoch::at(&EpochPosition::default(), &self.spec, self.blame.get(&number));
        self.epochs.insert(number, epoch);
        self.finish(number);
    }

    /// Where the order is the same in every epoch, what was taken out of one is taken out of the next: a program need not
    /// fail of it again for that.
    fn carry_over_blame(&mut self, number: u32) {
        let last = self.blame.values().next_back().filter(|blame| !blame.quarantined.is_empty());
        if self.spec.order == Order::Sequential
            && let Some(last) = last.cloned()
        {
            let failures = last
                .failures
                .into_iter()
                .filter(|(batch, _)| !last.quarantined.within(Batches::new(*batch, 1)).is_empty());
            let blame =
                Blame { failures: failures.collect(), quarantined: last.quarantined.clone(), ..Blame::default() };
            self.blame.entry(number).or_insert(blame);
        }
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

    /// What was taken out of the epochs that are finished.
    pub(super) fn quarantined_of_finished(&self) -> BTreeMap<u32, Ranges> {
        let is_finished = |number: &u32| *number < self.begun && !self.epochs.contains_key(number);
        let finished = self.blame.iter().filter(|(number, blame)| is_finished(number) && !blame.quarantined.is_empty());
        finished.map(|(number, blame)| (*number, blame.quarantined.clone())).collect()
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
