//! Takes positions of the ledger, and rewinds the ledger to one.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::Reason;

use super::epoch::Epoch;
use super::position::{DatasetPosition, Position};
use super::ranges::Ranges;
use super::{Cause, Fact, Ledger};

impl Ledger {
    /// The current position. A program stores it in its checkpoint, and can restore it together with the model.
    pub fn position(&self) -> Position {
        let datasets = self.datasets.iter().map(|(name, dataset)| {
            let epochs = dataset.epochs.iter().map(|(number, epoch)| {
                let granted = self
                    .grants
                    .values()
                    .filter(|held| held.dataset == *name && held.epoch == *number)
                    .flat_map(|held| held.leased.iter().chain(held.unleased.iter()));
                (*number, self.round_down_to_step(&dataset.spec, *number, epoch, epoch.position(granted)))
            });
            let position = DatasetPosition {
                spec: dataset.spec.clone(),
                begun: dataset.begun,
                accounted: dataset.accounted,
                quarantined: dataset.quarantined,
                quarantined_batches: dataset.quarantined_of_finished(),
                epochs: epochs.collect(),
            };
            (Arc::clone(name), position)
        });
        Position { datasets: datasets.collect() }
    }

    /// Rewinds to a position. All leases become void, and records accounted for since then are open again. A dataset
    /// that the position does not know starts anew. Returns how many records were reopened.
    pub fn restore(&mut self, position: Position, now: Duration, facts: &mut Vec<Fact>) -> Result<u64, Cause> {
        self.clock.advance(now);
        for (name, at) in &position.datasets {
            let known = self.datasets.get(name).map(|dataset| &dataset.spec);
            if let Some(spec) = known.filter(|spec| **spec != at.spec) {
                let (was, is) = (at.spec.describe(), spec.describe());
                let detail = format!("{name} has changed since the position was taken: {was} then, {is} now");
                return Err(Cause::new(Reason::DatasetChanged, detail));
            }
            if at.spec.name != *name || !at.is_possible() {
                return Err(Cause::new(Reason::InvalidPosition, format!("the position of {name} contradicts itself")));
            }
        }
        let rewound = |ledger: &Self| ledger.datasets.values().map(|dataset| dataset.rewound).sum::<u64>();
        let before = rewound(self);
        self.decide(Fact::Rewound { position }, facts);
        self.check(facts);
        Ok(rewound(self) - before)
    }

    pub(super) fn rewind(&mut self, position: &Position) {
        for (name, at) in &position.datasets {
            self.datasets.entry(Arc::clone(name)).or_insert_with(|| super::DatasetState::new(at.spec.clone()));
        }
        let records_of = |ranges: &Ranges, spec: &super::DatasetSpec| {
            ranges.iter().map(|batches| spec.records_in(batches)).sum::<u64>()
        };
        for held in self.grants.values() {
            if let Some(dataset) = self.datasets.get_mut(&held.dataset) {
                dataset.repeated += records_of(&held.leased, &dataset.spec);
            }
        }
        for (name, dataset) in &mut self.datasets {
            let start = DatasetPosition::start(&dataset.spec);
            let at = position.datasets.get(name).unwrap_or(&start);
            let accounted = |dataset: &super::DatasetState| {
                dataset.accounted + dataset.epochs.values().map(|epoch| epoch.accounted).sum::<u64>()
            };
            let before = accounted(dataset);
            dataset.begun = at.begun;
            (dataset.accounted, dataset.quarantined) = (at.accounted, at.quarantined);
            // Batches that were quarantined elsewhere are quarantined here, too.
            for (number, epoch) in at.epochs.iter().filter(|(_, epoch)| !epoch.quarantined.is_empty()) {
                let blame = dataset.blame.entry(*number).or_default();
                epoch.quarantined.iter().for_each(|batches| blame.quarantined.insert(batches));
            }
            // For a finished epoch the position is complete.
            for (number, blame) in dataset.blame.iter_mut().filter(|(number, _)| at.has_finished(**number)) {
                blame.quarantined = at.quarantined_batches.get(number).cloned().unwrap_or_default();
            }
            for (number, batches) in &at.quarantined_batches {
                dataset.blame.entry(*number).or_default().quarantined.clone_from(batches);
            }
            dataset.epochs = at
                .epochs
                .iter()
                .map(|(number, epoch)| (*number, Epoch::at(epoch, &dataset.spec, dataset.blame.get(number))))
                .collect();
            dataset.rewound += before.saturating_sub(accounted(dataset));
            // The quarantine of this ledger may complete an epoch that was open in the position.
            let numbers: Vec<u32> = dataset.epochs.keys().copied().collect();
            numbers.into_iter().for_each(|number| dataset.finish(number));
        }
        self.grants.clear();
        self.stealable.clear();
        for worker in self.workers.values_mut() {
            worker.grants.clear();
            worker.done.clear();
            worker.pace.busy_since = None;
        }
        self.check_at = Duration::MAX;
    }
}
