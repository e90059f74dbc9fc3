//! Which records no update comes of any more, for the servers: they remember what they applied only until then.

use flexor_engine::shards::{Batches, DatasetPosition, Position, Ranges};
use flexor_wire::master::v1 as wire;

/// What is done, of all datasets: accounted for, or taken out.
pub(super) fn closed(position: &Position) -> Vec<wire::ClosedRange> {
    position.datasets.values().flat_map(of_dataset).collect()
}

fn of_dataset(dataset: &DatasetPosition) -> impl Iterator<Item = wire::ClosedRange> + '_ {
    let spec = &dataset.spec;
    (0..dataset.begun).flat_map(move |epoch| {
        let mut done = Ranges::default();
        match dataset.epochs.get(&epoch) {
            Some(open) => {
                done.insert(Batches::new(0, open.fresh));
                open.open.iter().for_each(|batches| drop(done.remove(batches)));
            }
            None => done.insert(Batches::new(0, spec.batches())),
        }
        let place = |batch: u64| batch.saturating_mul(spec.batch.get()).min(spec.records);
        let range = move |batches: Batches| wire::ClosedRange {
            dataset: spec.number(),
            epoch,
            first: place(batches.first),
            end: place(batches.end()),
        };
        done.iter().map(range).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flexor_engine::shards::{Asked, DatasetSpec, Leased, Promise, Settings, Shards, WorkerId};

    use super::*;

    #[test]
    fn what_is_accounted_for_is_closed_and_nothing_else() {
        let mut shards = Shards::new(Settings::default());
        let spec = DatasetSpec::new("clicks", 25, 10).unwrap().with_epochs(Some(2));
        let number = spec.number();
        let (facts, now, worker) = (&mut Vec::new(), Duration::from_secs(1), WorkerId::new("w", 1));
        shards.register(spec, facts).unwrap();
        assert_eq!(closed(&shards.position()), []);
        let asked = Asked { dataset: "clicks".into(), batches: 3, epoch: None, promise: Promise::Replays };
        let Leased::Lease(lease) = shards.lease(&worker, &asked, now, facts).unwrap() else { panic!() };
        shards.acknowledge(&worker, lease.grant, Batches::new(1, 2), now, facts).unwrap();
        let range = |epoch, first, end| wire::ClosedRange { dataset: number, epoch, first, end };
        assert_eq!(closed(&shards.position()), [range(0, 10, 25)]);
        shards.acknowledge(&worker, lease.grant, Batches::new(0, 1), now, facts).unwrap();
        assert_eq!(closed(&shards.position()), [range(0, 0, 25)]);
    }
}
