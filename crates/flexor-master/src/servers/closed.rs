//! Closed records: no push of theirs comes again, so servers need not remember their batches one by one.
//!
//! The list is computed several times a second, and a job may have thousands of epochs. So consecutive epochs without open
//! records are one entry, and a server gets only what is new to it.

use std::collections::BTreeMap;

use flexor_engine::ledger::{Batches, DatasetPosition, Position, Ranges};
use flexor_wire::master::v1 as wire;

/// Closed records of all datasets: accounted for, or quarantined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The last epoch in which each range is closed.
    last_epoch: BTreeMap<ClosedSpan, u32>,
}

/// A range of records, from one epoch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ClosedSpan {
    dataset: u32,
    first_epoch: u32,
    first: u64,
    end: u64,
}

impl Closed {
    pub(super) fn of(position: &Position) -> Self {
        let mut closed = Self::default();
        position.datasets.values().for_each(|dataset| closed.add(dataset));
        closed
    }

    /// What a server that knows `known` still needs.
    pub(crate) fn beyond(&self, known: &Self) -> Vec<wire::ClosedRange> {
        let new = self.last_epoch.iter().filter_map(|(span, last_epoch)| {
            let first_epoch = match known.last_epoch.get(span) {
                Some(known) if known >= last_epoch => return None,
                Some(known) => known + 1,
                None => span.first_epoch,
            };
            let ClosedSpan { dataset, first, end, .. } = *span;
            Some(wire::ClosedRange {
                dataset,
                epoch: *last_epoch,
                first,
                end,
                first_epoch: (first_epoch < *last_epoch).then_some(first_epoch),
            })
        });
        new.collect()
    }

    fn add(&mut self, dataset: &DatasetPosition) {
        let spec = &dataset.spec;
        let mut first_epoch = 0;
        for (epoch, open) in &dataset.epochs {
            self.add_complete_epochs(dataset, first_epoch, *epoch);
            first_epoch = epoch + 1;
            let mut done = Ranges::default();
            done.insert(Batches::new(0, open.fresh));
            open.open.iter().for_each(|batches| drop(done.remove(batches)));
            let record = |batch: u64| batch.saturating_mul(spec.batch.get()).min(spec.records);
            for batches in done.iter() {
                let (first, end) = (record(batches.first), record(batches.end()));
                self.last_epoch.insert(ClosedSpan { dataset: spec.number(), first_epoch: *epoch, first, end }, *epoch);
            }
        }
        self.add_complete_epochs(dataset, first_epoch, dataset.begun);
    }

    /// Adds epochs without open records: from `first_epoch` to before `end_epoch`.
    fn add_complete_epochs(&mut self, dataset: &DatasetPosition, first_epoch: u32, end_epoch: u32) {
        if first_epoch < end_epoch {
            let (dataset, end) = (dataset.spec.number(), dataset.spec.records);
            self.last_epoch.insert(ClosedSpan { dataset, first_epoch, first: 0, end }, end_epoch - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flexor_engine::ledger::{ClientKind, DatasetSpec, LeaseOutcome, LeaseRequest, Ledger, Settings, WorkerId};

    use super::*;

    /// A dataset of three batches, the last of which is short.
    struct Data(Ledger);

    impl Data {
        fn new() -> Self {
            let mut ledger = Ledger::new(Settings::default());
            ledger.register(DatasetSpec::new("clicks", 25, 10).unwrap().with_epochs(None), &mut Vec::new()).unwrap();
            Self(ledger)
        }

        /// Leases the next epoch, and accounts for these batches of it.
        fn learn(&mut self, batches: &[u64]) {
            let (facts, now, worker) = (&mut Vec::new(), Duration::from_secs(1), WorkerId::new("w", 1));
            let asked =
                LeaseRequest { dataset: "clicks".into(), batches: 3, epoch: None, client: ClientKind::Resuming };
            let LeaseOutcome::Lease(lease) = self.0.lease(&worker, &asked, now, facts).unwrap() else { panic!() };
            for batch in batches {
                self.0.acknowledge(&worker, lease.grant, Batches::new(*batch, 1), now, facts).unwrap();
            }
        }

        fn closed(&self) -> Closed {
            Closed::of(&self.0.position())
        }

        fn range(&self, epoch: u32, first: u64, end: u64) -> wire::ClosedRange {
            let dataset = self.0.dataset("clicks").unwrap().number();
            wire::ClosedRange { dataset, epoch, first, end, first_epoch: None }
        }
    }

    #[test]
    fn exactly_the_accounted_records_are_closed() {
        let (mut data, nothing) = (Data::new(), Closed::default());
        assert_eq!(data.closed().beyond(&nothing), []);
        data.learn(&[1, 2]);
        assert_eq!(data.closed().beyond(&nothing), [data.range(0, 10, 25)]);
    }

    #[test]
    fn complete_epochs_are_one_entry() {
        let mut data = Data::new();
        data.learn(&[0, 1, 2]);
        let first = data.closed();
        assert_eq!(first.beyond(&Closed::default()), [data.range(0, 0, 25)]);
        (1..50).for_each(|_| data.learn(&[0, 1, 2]));
        data.learn(&[0]);
        let complete = wire::ClosedRange { first_epoch: Some(0), ..data.range(49, 0, 25) };
        assert_eq!(data.closed().beyond(&Closed::default()), [complete, data.range(50, 0, 10)]);
        let complete = wire::ClosedRange { first_epoch: Some(1), ..complete };
        assert_eq!(data.closed().beyond(&first), [complete, data.range(50, 0, 10)]);
    }

    #[test]
    fn a_server_gets_only_what_is_new_to_it() {
        let mut data = Data::new();
        (0..3).for_each(|_| data.learn(&[0, 1, 2]));
        data.learn(&[0]);
        let known = data.closed();
        assert_eq!(known.beyond(&known), []);
        data.learn(&[1]);
        let (open, next) = (data.range(3, 0, 10), data.range(4, 10, 20));
        assert_eq!(data.closed().beyond(&known), [next]);
        assert_eq!(data.closed().beyond(&Closed::default())[1..], [open, next]);
    }
}
