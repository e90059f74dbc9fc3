//! What came of the pushes of all workers, from the versions that servers answered them with.
//!
//! A partition counts its updates, and the count goes with it wherever it moves. So the highest version that anybody was
//! answered with says how many updates are in the model, whoever has died meanwhile; and more updates of a partition
//! than there are batches, or than steps are taken, would be some that were applied twice. Not all of such would be seen:
//! of a partition that few batches have something for, nobody here knows how many. What makes them impossible is the
//! history that each partition keeps; this is a look at it from outside.

use std::collections::BTreeMap;

use flexor_engine::ledger::{Ledger, WorkerId};
use flexor_engine::psmembers::{Partition, PsMembers, Seat};
use flexor_wire::master::v1 as wire;
use serde::Serialize;

/// What workers have said of their own pushes. What they were answered with the machine knows, and keeps.
#[derive(Debug, Default)]
pub(super) struct Updates {
    /// How many parts each worker sent that had been applied before.
    repeats: BTreeMap<WorkerId, u64>,
}

/// Updates of partitions: a batch is one update of each partition that something of it is for; in steps, a step is one of
/// every partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdatesStatus {
    /// In the model.
    pub applied: u64,
    /// Parts of pushes that were sent again, and not applied again: of batches in either case.
    pub repeats: u64,
    /// More updates of a partition than there are batches, or than steps are taken: has to be 0.
    pub reapplied: u64,
    /// Answered for, and in no model any more.
    pub lost: u64,
    /// Training goes in steps.
    pub in_steps: bool,
}

/// How many updates a partition can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Most {
    /// One of each batch of the epochs that have begun.
    Batches(u64),
    /// One of each step that is taken.
    Steps(u64),
}

impl Updates {
    /// A worker says how many of its pushes so far had been applied before.
    pub(super) fn take(&mut self, worker: &WorkerId, repeats: u64) {
        self.repeats.insert(worker.clone(), repeats);
    }

    /// What there is to tell, where a partition can have so many; nothing while no worker was answered, as far as is known.
    pub(super) fn status(&self, members: &PsMembers, most: Most) -> Option<UpdatesStatus> {
        let (Most::Batches(bound) | Most::Steps(bound)) = most;
        let answered = |(partition, seat): (Partition, &Seat)| members.answered_version(partition, seat.origin.number);
        let versions: Vec<u64> = members.map().iter().filter_map(answered).collect();
        let lost = members.updates_lost();
        (!versions.is_empty() || lost > 0).then(|| UpdatesStatus {
            applied: versions.iter().sum(),
            repeats: self.repeats.values().sum(),
            reapplied: versions.iter().map(|version| version.saturating_sub(bound)).sum(),
            lost,
            in_steps: matches!(most, Most::Steps(_)),
        })
    }
}

impl Most {
    /// As the ledger stands. Where one dataset is learnt in steps, nothing else is learnt.
    pub(super) fn of(ledger: &Ledger) -> Self {
        if let Some(taken) = ledger.synchronous_dataset().and_then(|spec| ledger.steps_taken(&spec.name)) {
            return Self::Steps(taken);
        }
        let begun = |name: &str| ledger.totals(name).map_or(0, |totals| u64::from(totals.epochs_begun));
        Self::Batches(ledger.datasets().map(|spec| begun(&spec.name) * spec.batches()).sum())
    }
}

impl From<UpdatesStatus> for wire::Updates {
    fn from(UpdatesStatus { applied, repeats, reapplied, lost, in_steps }: UpdatesStatus) -> Self {
        Self { applied, repeats, reapplied, lost, in_steps }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::time::Duration;

    use flexor_engine::Cause;
    use flexor_engine::ledger::{ClientKind, DatasetSpec, LeaseOutcome, LeaseRequest, Settings, StepSpec};
    use flexor_engine::psmembers::{Fact, Origin, Source};
    use flexor_model::{PsEpoch, Reason};

    use super::*;

    /// Servers whose partitions have begun so often.
    fn members(origins: &[u64]) -> PsMembers {
        let seat = |number: &u64| Seat {
            owner: None,
            backup: None,
            origin: Origin { number: *number, source: Source::Initial },
            since: PsEpoch(0),
        };
        let seats = (0..).map(Partition).zip(origins.iter().map(seat)).collect();
        let cause = Cause::new(Reason::ServersFormed, "all are here");
        let mut members = PsMembers::default();
        members.replay(&Fact::Mapped { epoch: PsEpoch(1), seats, cause });
        members
    }

    fn answer(members: &mut PsMembers, answered: &[(u32, u64, u64)]) {
        for (partition, origin, version) in answered {
            members.answered(Partition(*partition), *origin, *version, &mut Vec::new());
        }
    }

    #[test]
    fn nothing_is_known_before_anybody_has_spoken() {
        let mut updates = Updates::default();
        assert_eq!(updates.status(&members(&[1]), Most::Batches(10)), None);
        updates.take(&WorkerId::new("late", 1), 0);
        assert_eq!(updates.status(&members(&[1]), Most::Batches(10)), None, "all was done when it came");
    }

    #[test]
    fn the_highest_version_counts_whoever_was_answered_with_it() {
        let (mut updates, mut members) = (Updates::default(), members(&[1, 1]));
        updates.take(&WorkerId::new("a", 1), 2);
        updates.take(&WorkerId::new("b", 1), 1);
        updates.take(&WorkerId::new("a", 1), 3);
        answer(&mut members, &[(0, 1, 7), (1, 1, 4), (0, 1, 5), (1, 1, 6), (0, 1, 8)]);
        let status = updates.status(&members, Most::Batches(8)).unwrap();
        assert_eq!(status, UpdatesStatus { applied: 14, repeats: 4, ..UpdatesStatus::default() });
        let fewer = updates.status(&members, Most::Batches(5)).unwrap();
        assert_eq!(fewer.reapplied, 4, "3 of one partition, 1 of the other");
    }

    #[test]
    fn in_steps_a_partition_has_no_more_updates_than_steps_are_taken() {
        let mut ledger = Ledger::new(Settings::default());
        let steps = Some(StepSpec { batches: NonZeroU64::new(4).unwrap(), ahead: 0 });
        ledger.register(DatasetSpec::new("clicks", 80, 10).unwrap().with_steps(steps), &mut Vec::new()).unwrap();
        let (worker, now) = (WorkerId::new("a", 1), Duration::from_secs(1));
        let asked = LeaseRequest { dataset: "clicks".into(), batches: 4, epoch: None, client: ClientKind::Resuming };
        let LeaseOutcome::Lease(lease) = ledger.lease(&worker, &asked, now, &mut Vec::new()).unwrap() else { panic!() };
        assert_eq!(Most::of(&ledger), Most::Steps(0));
        ledger.acknowledge(&worker, lease.grant, lease.batches, now, &mut Vec::new()).unwrap();
        assert_eq!(Most::of(&ledger), Most::Steps(1));

        let mut members = members(&[1]);
        answer(&mut members, &[(0, 1, 2)]);
        let status = Updates::default().status(&members, Most::of(&ledger)).unwrap();
        assert_eq!((status.reapplied, status.in_steps), (1, true), "of four batches, and one too many");
    }

    #[test]
    fn what_is_in_no_model_any_more_is_not_counted() {
        let mut members = members(&[2]);
        answer(&mut members, &[(0, 1, 100), (0, 2, 3)]);
        assert_eq!(Updates::default().status(&members, Most::Batches(100)).unwrap().applied, 3);
    }

    #[test]
    fn what_a_master_before_was_told_counts() {
        let mut members = members(&[1]);
        members.replay(&Fact::Answered { answered: vec![(Partition(0), 1, 7)] });
        assert_eq!(Updates::default().status(&members, Most::Batches(8)).unwrap().applied, 7);
    }
}
