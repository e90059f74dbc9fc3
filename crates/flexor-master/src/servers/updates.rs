//! Counts updates of the model, from the versions that servers acknowledged to workers.
//!
//! A partition counts its updates, and the count moves with it. So the highest acknowledged version is the number of updates
//! in the model, whichever workers have died. More updates of a partition than batches, or than committed steps, would mean
//! that some were applied twice. This check does not see all of those, because the master does not know how many batches
//! have gradients for a partition. The partition's own history prevents duplicates; this is a check from outside.

use std::collections::BTreeMap;

use flexor_engine::ledger::{Ledger, WorkerId};
use flexor_engine::ps_membership::{Partition, PartitionReplicas, PsMembership};
use flexor_wire::master::v1 as wire;
use serde::Serialize;

/// Reports of workers about repeated pushes. The membership keeps the acknowledged versions.
#[derive(Debug, Default)]
pub(super) struct Updates {
    /// Parts per worker that had been applied before.
    repeats: BTreeMap<WorkerId, u64>,
}

/// Updates of partitions. A batch is one update of each partition that it has gradients for. In synchronous training a step
/// is one update of every partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdatesStatus {
    /// Contained in the model.
    pub applied: u64,
    /// Parts of repeated pushes that were not applied again; counted in batches in both modes.
    pub repeats: u64,
    /// Updates of a partition beyond the number of batches, or of committed steps: must be 0.
    pub reapplied: u64,
    /// Acknowledged to a client, and no longer in the model.
    pub lost: u64,
    /// Updates are synchronous steps.
    pub synchronous: bool,
}

/// The highest number of updates that a partition can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateLimit {
    /// One per batch of the epochs that have begun.
    Batches(u64),
    /// One per committed step.
    Steps(u64),
}

impl Updates {
    pub(super) fn record(&mut self, worker: &WorkerId, repeats: u64) {
        self.repeats.insert(worker.clone(), repeats);
    }

    /// None before any acknowledged version is known.
    pub(super) fn status(&self, members: &PsMembership, limit: UpdateLimit) -> Option<UpdatesStatus> {
        let (UpdateLimit::Batches(bound) | UpdateLimit::Steps(bound)) = limit;
        let acknowledged = |(partition, replicas): (Partition, &PartitionReplicas)| {
            members.acknowledged_version(partition, replicas.generation.number)
        };
        let versions: Vec<u64> = members.map().iter().filter_map(acknowledged).collect();
        let lost = members.lost_updates();
        (!versions.is_empty() || lost > 0).then(|| UpdatesStatus {
            applied: sum(versions.iter().copied()),
            repeats: sum(self.repeats.values().copied()),
            reapplied: sum(versions.iter().map(|version| version.saturating_sub(bound))),
            lost,
            synchronous: matches!(limit, UpdateLimit::Steps(_)),
        })
    }
}

/// The numbers come from other processes.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

impl UpdateLimit {
    /// The limit by the ledger. A synchronous job trains on one dataset only.
    pub(super) fn of(ledger: &Ledger) -> Self {
        if let Some(committed) = ledger.synchronous_dataset().and_then(|spec| ledger.steps_taken(&spec.name)) {
            return Self::Steps(committed);
        }
        let begun = |name: &str| ledger.totals(name).map_or(0, |totals| u64::from(totals.epochs_begun));
        Self::Batches(sum(ledger.datasets().map(|spec| begun(&spec.name).saturating_mul(spec.batches()))))
    }
}

impl From<UpdatesStatus> for wire::Updates {
    fn from(UpdatesStatus { applied, repeats, reapplied, lost, synchronous }: UpdatesStatus) -> Self {
        Self { applied, repeats, reapplied, lost, synchronous }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::time::Duration;

    use flexor_engine::Cause;
    use flexor_engine::ledger::{ClientKind, DatasetSpec, LeaseOutcome, LeaseRequest, Settings, StepSpec};
    use flexor_engine::ps_membership::{Fact, PartitionGeneration, Source};
    use flexor_model::{MapEpoch, Reason, Spans};

    use super::*;

    /// A membership whose partitions have these generations.
    fn members(generations: &[u64]) -> PsMembership {
        let mut members = PsMembership::default();
        members.replay(&map(1, generations));
        members
    }

    fn map(epoch: u64, generations: &[u64]) -> Fact {
        let replicas = |number: &u64| PartitionReplicas {
            primary: None,
            backup: None,
            generation: PartitionGeneration { number: *number, source: Source::Initial },
            primary_since: MapEpoch(0),
        };
        let changed = (0..).map(Partition).zip(generations.iter().map(replicas)).collect();
        let cause = Cause::new(Reason::PsMembershipFormed, "all servers are connected");
        Fact::MapChanged { epoch: MapEpoch(epoch), changed, cause }
    }

    fn acknowledge(members: &mut PsMembership, acknowledged: &[(u32, u64, u64)]) {
        let one = |(partition, generation, version): &(u32, u64, u64)| {
            (Partition(*partition), *generation, Spans::from(vec![(*version, version + 1)]))
        };
        members.record_acknowledged(acknowledged.iter().map(one), &mut Vec::new());
    }

    #[test]
    fn the_status_is_unknown_before_a_version_is_acknowledged() {
        let mut updates = Updates::default();
        assert_eq!(updates.status(&members(&[1]), UpdateLimit::Batches(10)), None);
        updates.record(&WorkerId::new("late", 1), 0);
        assert_eq!(updates.status(&members(&[1]), UpdateLimit::Batches(10)), None, "a late worker pushes nothing");
    }

    #[test]
    fn the_highest_acknowledged_version_counts() {
        let (mut updates, mut members) = (Updates::default(), members(&[1, 1]));
        updates.record(&WorkerId::new("a", 1), 2);
        updates.record(&WorkerId::new("b", 1), 1);
        updates.record(&WorkerId::new("a", 1), 3);
        acknowledge(&mut members, &[(0, 1, 7), (1, 1, 4), (0, 1, 5), (1, 1, 6), (0, 1, 8)]);
        let status = updates.status(&members, UpdateLimit::Batches(8)).unwrap();
        assert_eq!(status, UpdatesStatus { applied: 14, repeats: 4, ..UpdatesStatus::default() });
        let fewer = updates.status(&members, UpdateLimit::Batches(5)).unwrap();
        assert_eq!(fewer.reapplied, 4, "3 of one partition, 1 of the other");
    }

    #[test]
    fn reports_of_any_size_are_counted() {
        let (mut updates, mut members) = (Updates::default(), members(&[1, 1]));
        updates.record(&WorkerId::new("a", 1), u64::MAX);
        updates.record(&WorkerId::new("b", 1), u64::MAX);
        acknowledge(&mut members, &[(0, 1, u64::MAX - 1), (1, 1, u64::MAX - 1)]);
        let status = updates.status(&members, UpdateLimit::Batches(8)).unwrap();
        assert_eq!((status.applied, status.repeats, status.reapplied), (u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn in_synchronous_training_a_partition_has_no_more_updates_than_committed_steps() {
        let mut ledger = Ledger::new(Settings::default());
        let steps = Some(StepSpec { batches: NonZeroU64::new(4).unwrap(), ahead: 0 });
        ledger.register(DatasetSpec::new("clicks", 80, 10).unwrap().with_steps(steps), &mut Vec::new()).unwrap();
        let (worker, now) = (WorkerId::new("a", 1), Duration::from_secs(1));
        let asked = LeaseRequest { dataset: "clicks".into(), batches: 4, epoch: None, client: ClientKind::Resuming };
        let LeaseOutcome::Lease(lease) = ledger.lease(&worker, &asked, now, &mut Vec::new()).unwrap() else { panic!() };
        assert_eq!(UpdateLimit::of(&ledger), UpdateLimit::Steps(0));
        ledger.acknowledge(&worker, lease.grant, lease.batches, now, &mut Vec::new()).unwrap();
        assert_eq!(UpdateLimit::of(&ledger), UpdateLimit::Steps(1));

        let mut members = members(&[1]);
        acknowledge(&mut members, &[(0, 1, 2)]);
        let status = Updates::default().status(&members, UpdateLimit::of(&ledger)).unwrap();
        assert_eq!((status.reapplied, status.synchronous), (1, true), "of four batches, and one too many");
    }

    #[test]
    fn updates_of_earlier_generations_are_not_counted() {
        let mut members = members(&[1]);
        acknowledge(&mut members, &[(0, 1, 100)]);
        members.replay(&map(2, &[2]));
        acknowledge(&mut members, &[(0, 2, 3)]);
        assert_eq!(Updates::default().status(&members, UpdateLimit::Batches(100)).unwrap().applied, 3);
    }

    #[test]
    fn versions_that_an_earlier_master_journalled_count() {
        let mut members = members(&[1]);
        let (versions, partitions) = (Spans::from(vec![(1, 8)]), Spans::from(vec![(0, 1)]));
        members.replay(&Fact::VersionsAcknowledged { acknowledged: vec![(1, versions, partitions)] });
        let members = members.resume(flexor_engine::ps_membership::Settings::default(), 2, Duration::ZERO);
        assert_eq!(Updates::default().status(&members, UpdateLimit::Batches(8)).unwrap().applied, 7);
    }
}
