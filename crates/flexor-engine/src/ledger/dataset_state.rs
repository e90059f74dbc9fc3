//! A dataset and the state of its epochs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::dataset_spec::DatasetSpec;
use super::epoch::{Blame, Epoch};
use super::order::Order;
use super::position::EpochPosition;
use super::ranges::{Batches, Ranges};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DatasetState {
    pub(super) spec: DatasetSpec,
    pub(super) begun: u32,
    /// Epochs that have begun and are not finished.
    pub(super) epochs: BTreeMap<u32, Epoch>,
    pub(super) blame: BTreeMap<u32, Blame>,
    /// Records of finished epochs; so is `quarantined`.
    pub(super) accounted: u64,
    pub(super) quarantined: u64,
    pub(super) repeated: u64,
    pub(super) rewound: u64,
    /// Records that damage of the journal reopened, at most; part of `repeated`.
    #[serde(default)]
    pub(super) reopened: u64,
    /// About the batch time of the slowest worker. It is journaled, so a restarted master knows it.
    #[serde(default)]
    pub(super) batch_time: Option<Duration>,
}

impl DatasetState {
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
            reopened: 0,
            batch_time: None,
        }
    }

    /// Begins an epoch, with the charges against its batches from before a rewind.
    pub(super) fn begin(&mut self, number: u32) {
        self.begun = self.begun.max(number + 1);
        self.carry_over_blame(number);
        let epoch = Epoch::at(&EpochPosition::default(), &self.spec, self.blame.get(&number));
        self.epochs.insert(number, epoch);
        self.finish(number);
    }

    /// In sequential order every epoch has the same batches. Those quarantined in one epoch are quarantined in the
    /// next, and the program need not fail on them again.
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

    /// The quarantined batches of the finished epochs.
    pub(super) fn quarantined_of_finished(&self) -> BTreeMap<u32, Ranges> {
        let is_finished = |number: &u32| *number < self.begun && !self.epochs.contains_key(number);
        let finished = self.blame.iter().filter(|(number, blame)| is_finished(number) && !blame.quarantined.is_empty());
        finished.map(|(number, blame)| (*number, blame.quarantined.clone())).collect()
    }

    /// Whether an epoch has suspects.
    pub(super) fn has_suspects(&self) -> bool {
        self.epochs.values().any(|epoch| !epoch.suspects.is_empty())
    }

    /// Closes an epoch that has no batch left.
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
