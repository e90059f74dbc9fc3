//! Which records no update comes of any more, for the servers: they remember what they applied only until then.
//!
//! It is looked at several times a second, and a job may go through its data thousands of times. So epochs of which nothing
//! is open are one entry however many there are, and a server hears what is new to it.

use std::collections::BTreeMap;

use flexor_engine::ledger::{Batches, DatasetPosition, Position, Ranges};
use flexor_wire::master::v1 as wire;

/// What is done, of all datasets: accounted for, or taken out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Closed {
    /// Up to which epoch it is so.
    until: BTreeMap<Stretch, u32>,
}

/// Records, in every epoch from one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    dataset: u32,
    since: u32,
    first: u64,
    end: u64,
}

impl Closed {
    /// What is done when the ledger stands like this.
    pub(super) fn of(position: &Position) -> Self {
        let mut closed = Self::default();
        position.datasets.values().for_each(|dataset| closed.add(dataset));
        closed
    }

    /// What somebody has to be told who knows that much.
    pub(crate) fn beyond(&self, known: &Self) -> Vec<wire::ClosedRange> {
        let news = self.until.iter().filter_map(|(stretch, until)| {
            let since = match known.until.get(stretch) {
                Some(known) if known >= until => return None,
                Some(known) => known + 1,
                None => stretch.since,
            };
            let Stretch { dataset, first, end, .. } = *stretch;
            Some(wire::ClosedRange { dataset, epoch: *until, first, end, since: (since < *until).then_some(since) })
        });
        news.collect()
    }

    fn add(&mut self, dataset: &DatasetPosition) {
        let spec = &dataset.spec;
        let mut since = 0;
        for (epoch, open) in &dataset.epochs {
            self.add_whole(dataset, since, *epoch);
            since = epoch + 1;
            let mut done = Ranges::default();
            done.insert(Batches::new(0, open.fresh));
            open.open.iter().for_each(|batches| drop(done.remove(batches)));
            let place = |batch: u64| batch.saturating_mul(spec.batch.get()).min(spec.records);
            for batches in done.iter() {
                let (first, end) = (place(batches.first), place(batches.end()));
                self.until.insert(Stretch { dataset: spec.number(), since: *epoch, first, end }, *epoch);
            }
        }
        self.add_whole(dataset, since, dataset.begun);
    }

    /// Nothing is open of the epochs from one on to before another.
    fn add_whole(&mut self, dataset: &DatasetPosition, since: u32, before: u32) {
        if since < before {
            let (dataset, end) = (dataset.spec.number(), dataset.spec.records);
            self.until.insert(Stretch { dataset, since, first: 0, end }, before - 1);
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
            wire::ClosedRange { dataset, epoch, first, end, since: None }
        }
    }

    #[test]
    fn what_is_accounted_for_is_closed_and_nothing_else() {
        let (mut data, nothing) = (Data::new(), Closed::default());
        assert_eq!(data.closed().beyond(&nothing), []);
        data.learn(&[1, 2]);
        assert_eq!(data.closed().beyond(&nothing), [data.range(0, 10, 25)]);
    }

    #[test]
    fn epochs_of_which_nothing_is_open_are_told_as_one() {
        let mut data = Data::new();
        data.learn(&[0, 1, 2]);
        let first = data.closed();
        assert_eq!(first.beyond(&Closed::default()), [data.range(0, 0, 25)]);
        (1..50).for_each(|_| data.learn(&[0, 1, 2]));
        data.learn(&[0]);
        let whole = wire::ClosedRange { since: Some(0), ..data.range(49, 0, 25) };
        assert_eq!(data.closed().beyond(&Closed::default()), [whole, data.range(50, 0, 10)]);
        let whole = wire::ClosedRange { since: Some(1), ..whole };
        assert_eq!(data.closed().beyond(&first), [whole, data.range(50, 0, 10)]);
    }

    #[test]
    fn only_what_is_new_is_told_to_who_knows_the_rest() {
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
