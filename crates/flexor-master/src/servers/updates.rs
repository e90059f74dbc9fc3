//! What came of the pushes of all workers, from the versions that servers answered them with.
//!
//! A partition counts its updates, and the count goes with it wherever it moves. So the highest version that anybody was
//! answered with says how many updates are in the model, whoever has died meanwhile; and more updates of a partition
//! than there are batches would be some that were applied twice.

use std::collections::BTreeMap;

use flexor_engine::psmembers::{Map, Partition};
use flexor_engine::shards::{Shards, WorkerId};
use flexor_wire::master::v1 as wire;
use serde::Serialize;

/// What workers have said.
#[derive(Debug, Default)]
pub(super) struct Updates {
    answered: BTreeMap<(Partition, u64), u64>,
    /// How many parts each worker sent that had been applied before.
    repeats: BTreeMap<WorkerId, u64>,
}

/// Updates of partitions: a batch is one update of each partition that something of it is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UpdatesStatus {
    /// In the model.
    pub applied: u64,
    /// Sent again, and not applied again.
    pub repeats: u64,
    /// More updates of a partition than there are batches: has to be 0.
    pub reapplied: u64,
    /// Answered for, and in no model any more.
    pub lost: u64,
}

impl Updates {
    /// A worker says what came of its pushes so far.
    pub(super) fn take(&mut self, worker: &WorkerId, said: &wire::WorkerUpdates) {
        self.repeats.insert(worker.clone(), said.repeats);
        for one in &said.answered {
            let known = self.answered.entry((Partition(one.partition), one.origin)).or_default();
            *known = (*known).max(one.version);
        }
    }

    /// What there is to tell, where so many batches were begun and so many updates were lost; nothing while no worker
    /// has said anything, or those that did had nothing left to do.
    pub(super) fn status(&self, map: &Map, batches: u64, lost: u64) -> Option<UpdatesStatus> {
        if self.answered.is_empty() {
            return None;
        }
        let mut status = UpdatesStatus { repeats: self.repeats.values().sum(), lost, ..UpdatesStatus::default() };
        for (partition, seat) in map.iter() {
            let version = self.answered.get(&(partition, seat.origin.number)).copied().unwrap_or(0);
            status.applied += version;
            status.reapplied += version.saturating_sub(batches);
        }
        Some(status)
    }
}

/// How many batches the epochs have that have begun: no partition has more updates.
pub(super) fn batches_begun(shards: &Shards) -> u64 {
    let begun = |name: &str| shards.totals(name).map_or(0, |totals| u64::from(totals.epochs_begun));
    shards.datasets().map(|spec| begun(&spec.name) * spec.batches()).sum()
}

impl From<UpdatesStatus> for wire::Updates {
    fn from(UpdatesStatus { applied, repeats, reapplied, lost }: UpdatesStatus) -> Self {
        Self { applied, repeats, reapplied, lost }
    }
}

#[cfg(test)]
mod tests {
    use flexor_engine::psmembers::{Origin, Seat, Source};
    use flexor_model::PsEpoch;

    use super::*;

    fn map(origins: &[u64]) -> Map {
        let seat = |number: &u64| Seat {
            owner: None,
            backup: None,
            origin: Origin { number: *number, source: Source::Initial },
            since: PsEpoch(0),
        };
        Map { epoch: PsEpoch(1), seats: origins.iter().map(seat).collect() }
    }

    fn said(repeats: u64, answered: &[(u32, u64, u64)]) -> wire::WorkerUpdates {
        let one = |(partition, origin, version): &(u32, u64, u64)| wire::AnsweredVersion {
            partition: *partition,
            origin: *origin,
            version: *version,
        };
        wire::WorkerUpdates { repeats, answered: answered.iter().map(one).collect() }
    }

    #[test]
    fn nothing_is_known_before_anybody_has_spoken() {
        let mut updates = Updates::default();
        assert_eq!(updates.status(&map(&[1]), 10, 0), None);
        updates.take(&WorkerId::new("late", 1), &said(0, &[]));
        assert_eq!(updates.status(&map(&[1]), 10, 0), None, "all was done when it came");
    }

    #[test]
    fn the_highest_version_counts_whoever_was_answered_with_it() {
        let mut updates = Updates::default();
        updates.take(&WorkerId::new("a", 1), &said(2, &[(0, 1, 7), (1, 1, 4)]));
        updates.take(&WorkerId::new("b", 1), &said(1, &[(0, 1, 5), (1, 1, 6)]));
        updates.take(&WorkerId::new("a", 1), &said(3, &[(0, 1, 8)]));
        let status = updates.status(&map(&[1, 1]), 8, 0).unwrap();
        assert_eq!(status, UpdatesStatus { applied: 14, repeats: 4, reapplied: 0, lost: 0 });
        assert_eq!(updates.status(&map(&[1, 1]), 5, 0).unwrap().reapplied, 4, "3 of one partition, 1 of the other");
    }

    #[test]
    fn what_is_in_no_model_any_more_is_not_counted() {
        let mut updates = Updates::default();
        updates.take(&WorkerId::new("a", 1), &said(0, &[(0, 1, 100), (0, 2, 3)]));
        assert_eq!(updates.status(&map(&[2]), 100, 97).unwrap().applied, 3);
    }
}
