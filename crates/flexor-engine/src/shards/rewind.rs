//! Positions: where the ledger stands, and going back there.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::Reason;

use super::epoch::Epoch;
use super::position::{DatasetPosition, Position};
use super::ranges::Ranges;
use super::{Cause, Fact, Shards};

impl Shards {
    /// What is accounted for at this moment. A program that keeps it in its checkpoint can come back to it.
    pub fn position(&self) -> Position {
        let datasets = self.datasets.iter().map(|(name, dataset)| {
            let epochs = dataset.epochs.iter().map(|(number, epoch)| {
                let granted = self
                    .grants
                    .values()
                    .filter(|held| held.dataset == *name && held.epoch == *number)
                    .flat_map(|held| held.leased.iter().chain(held.unleased.iter()));
                (*number, self.at_a_step(&dataset.spec, *number, epoch, epoch.position(granted)))
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

    /// Goes back to a position: all leases are void, and what was accounted for since then is open again. A dataset that
    /// the position does not know begins anew. Gives how many records that makes open.
    pub fn restore(&mut self, position: Position, now: Duration, facts: &mut Vec<Fact>) -> Result<u64, Cause> {
        self.clock.advance(now);
        for (name, at) in &position.datasets {
            let known = self.datasets.get(name).map(|dataset| &dataset.spec);
            if let Some(spec) = known.filter(|spec| **spec != at.spec) {
                let (was, is) = (at.spec.described(), spec.described());
                let detail = format!("{name} is not what it was when the position was taken: {was} then, {is} now");
                return Err(Cause::new(Reason::DatasetChanged, detail));
            }
            if at.spec.name != *name || !at.is_possible() {
                return Err(Cause::new(Reason::InvalidPosition, format!("the position of {name} cannot be")));
            }
        }
        let rewound = |shards: &Self| shards.datasets.values().map(|dataset| dataset.rewound).sum::<u64>();
        let before = rewound(self);
        self.decide(Fact::Rewound { position }, facts);
        self.check(facts);
        Ok(rewound(self) - before)
    }

    pub(super) fn wind_back(&mut self, position: &Position) {
        for (name, at) in &position.datasets {
            self.datasets.entry(Arc::clone(name)).or_insert_with(|| super::Dataset::new(at.spec.clone()));
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
            let accounted = |dataset: &super::Dataset| {
                dataset.accounted + dataset.epochs.values().map(|epoch| epoch.accounted).sum::<u64>()
            };
            let before = accounted(dataset);
            dataset.begun = at.begun;
            (dataset.accounted, dataset.quarantined) = (at.accounted, at.quarantined);
            // What was taken out elsewhere is named here, too.
            for (number, epoch) in at.epochs.iter().filter(|(_, epoch)| !epoch.quarantined.is_empty()) {
                let blame = dataset.blame.entry(*number).or_default();
                epoch.quarantined.iter().for_each(|batches| blame.quarantined.insert(batches));
            }
            // Of a finished epoch the position tells all.
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
            // What was quarantined since may have been all that was left of an epoch.
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
