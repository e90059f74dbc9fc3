//! Steps of synchronous training, counted over all epochs.
//!
//! A batch's number determines its step; the last step of an epoch may be short. A step is complete when all its
//! batches are accounted for, so the completed steps follow from the ledger alone. Batches of later steps are not
//! leased before: they need the parameters after the earlier steps.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::Ledger;
use super::dataset_spec::DatasetSpec;
use super::epoch::Epoch;
use super::position::EpochPosition;
use super::ranges::{Batches, Ranges};

/// The division of an epoch into steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepSpec {
    /// Batches per step.
    pub batches: NonZeroU64,
    /// How many further steps may begin before the current one is complete.
    #[serde(default)]
    pub ahead: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepBatches {
    pub epoch: u32,
    /// In order, without quarantined batches.
    pub batches: Vec<u64>,
}

impl DatasetSpec {
    pub fn with_steps(self, steps: Option<StepSpec>) -> Self {
        Self { steps, ..self }
    }

    fn steps_of_epoch(&self, steps: StepSpec) -> u64 {
        self.batches().div_ceil(steps.batches.get())
    }

    /// The step of a batch, in synchronous training.
    pub fn step_of(&self, epoch: u32, batch: u64) -> Option<u64> {
        let steps = self.steps?;
        Some(u64::from(epoch) * self.steps_of_epoch(steps) + batch / steps.batches)
    }
}

impl Ledger {
    /// The dataset of synchronous training, if there is one.
    pub fn synchronous_dataset(&self) -> Option<&DatasetSpec> {
        self.datasets().find(|spec| spec.steps.is_some())
    }

    /// How many steps of a dataset are complete.
    pub fn steps_taken(&self, name: &str) -> Option<u64> {
        let dataset = self.datasets.get(name)?;
        let steps = dataset.spec.steps?;
        let finished = u64::from(dataset.begun) - dataset.epochs.len() as u64;
        let of_open = dataset
            .epochs
            .iter()
            .next()
            .map_or(0, |(number, epoch)| self.first_open(name, *number, epoch) / steps.batches.get());
        Some(finished * dataset.spec.steps_of_epoch(steps) + of_open)
    }

    pub fn batches_of_step(&self, name: &str, step: u64) -> Option<StepBatches> {
        let dataset = self.datasets.get(name)?;
        let steps = dataset.spec.steps?;
        let find_in_epoch = dataset.spec.steps_of_epoch(steps).max(1);
        let epoch = u32::try_from(step / find_in_epoch).ok()?;
        let first = (step % find_in_epoch) * steps.batches.get();
        let end = (first + steps.batches.get()).min(dataset.spec.batches());
        let nothing = Ranges::default();
        let taken_out = dataset.blame.get(&epoch).map_or(&nothing, |blame| &blame.quarantined);
        let stays = |batch: &u64| taken_out.within(Batches::new(*batch, 1)).is_empty();
        Some(StepBatches { epoch, batches: (first..end).filter(stays).collect() })
    }

    /// Batches from this one on cannot be leased yet.
    pub(super) fn leasable_until(&self, spec: &DatasetSpec, number: u32, epoch: &Epoch) -> u64 {
        let all = spec.batches();
        spec.steps.map_or(all, |StepSpec { batches, ahead }| {
            let taken = self.first_open(&spec.name, number, epoch) / batches.get();
            (taken + 1 + u64::from(ahead)).saturating_mul(batches.get()).min(all)
        })
    }

    /// An epoch's position, cut back to the last complete step.
    pub(super) fn round_down_to_step(
        &self,
        spec: &DatasetSpec,
        number: u32,
        epoch: &Epoch,
        at: EpochPosition,
    ) -> EpochPosition {
        let Some(steps) = spec.steps else { return at };
        let taken = self.first_open(&spec.name, number, epoch) / steps.batches.get();
        let fresh = taken.saturating_mul(steps.batches.get()).min(spec.batches());
        let quarantined = at.quarantined.within(Batches::new(0, fresh));
        EpochPosition { fresh, open: Ranges::default(), quarantined }
    }

    /// The first open batch of an epoch. There is one: an epoch without open batches is finished, and not stored.
    fn first_open(&self, name: &str, number: u32, epoch: &Epoch) -> u64 {
        let first = |ranges: &Ranges| ranges.first(1).map(|batches| batches.first);
        let granted = self.grants.values().filter(|held| *held.dataset == *name && held.epoch == number);
        let granted = granted.flat_map(|held| [first(&held.leased), first(&held.unleased)]).flatten();
        let open = granted.chain(first(&epoch.returned)).chain(first(&epoch.suspects)).min();
        open.unwrap_or(u64::MAX).min(epoch.fresh)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{ClientKind, Fact, Lease, LeaseOutcome, LeaseRequest, Settings, WorkerId};
    use super::*;

    struct Training {
        ledger: Ledger,
        facts: Vec<Fact>,
        now: Duration,
    }

    impl Training {
        fn new(records: u64, ahead: u32) -> Self {
            let mut ledger = Ledger::new(Settings::default());
            let steps = StepSpec { batches: NonZeroU64::new(3).unwrap(), ahead };
            let spec = DatasetSpec::new("clicks", records, 10).unwrap().with_epochs(Some(2)).with_steps(Some(steps));
            ledger.register(spec, &mut Vec::new()).unwrap();
            Self { ledger, facts: Vec::new(), now: Duration::from_secs(1) }
        }

        fn lease(&mut self, worker: &str) -> LeaseOutcome {
            let request =
                LeaseRequest { dataset: "clicks".into(), batches: 1, epoch: None, client: ClientKind::Resuming };
            self.ledger.lease(&WorkerId::new(worker, 1), &request, self.now, &mut self.facts).unwrap()
        }

        fn leased(&mut self, worker: &str) -> Lease {
            match self.lease(worker) {
                LeaseOutcome::Lease(lease) => lease,
                other => panic!("{other:?}"),
            }
        }

        fn done(&mut self, worker: &str, lease: &Lease) {
            let worker = WorkerId::new(worker, 1);
            self.ledger.acknowledge(&worker, lease.grant, lease.batches, self.now, &mut self.facts).unwrap();
        }

        fn taken(&self) -> u64 {
            self.ledger.steps_taken("clicks").unwrap()
        }
    }

    #[test]
    fn the_next_step_begins_when_the_one_before_is_complete() {
        let mut training = Training::new(75, 0);
        let leases: Vec<Lease> = (0..3).map(|_| training.leased("one")).collect();
        assert_eq!(leases.iter().map(|lease| lease.batches.first).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(
            matches!(training.lease("two"), LeaseOutcome::Wait(cause) if cause.reason == flexor_model::Reason::StepNotCommitted)
        );
        training.done("one", &leases[2]);
        training.done("one", &leases[0]);
        assert_eq!(training.taken(), 0);
        training.done("one", &leases[1]);
        assert_eq!(training.taken(), 1);
        assert_eq!(training.leased("two").batches.first, 3);
    }

    #[test]
    fn an_epoch_ends_with_a_short_step_and_the_next_waits_for_it() {
        let mut training = Training::new(75, 0);
        for step in 1..=6 {
            let leases: Vec<Lease> = (0..if step % 3 == 0 { 2 } else { 3 }).map(|_| training.leased("one")).collect();
            assert!(
                step == 6 || !matches!(training.lease("one"), LeaseOutcome::Lease(_)),
                "before step {step} is taken"
            );
            leases.iter().for_each(|lease| training.done("one", lease));
            assert_eq!(training.taken(), step);
        }
        assert_eq!(training.lease("one"), LeaseOutcome::Finished);
        let last = training.ledger.batches_of_step("clicks", 5).unwrap();
        assert_eq!(last, StepBatches { epoch: 1, batches: vec![6, 7] });
        assert_eq!(training.ledger.dataset("clicks").unwrap().step_of(1, 7), Some(5));
    }

    #[test]
    fn as_many_steps_as_are_allowed_may_be_begun() {
        let mut training = Training::new(75, 1);
        let leases: Vec<Lease> = (0..6).map(|_| training.leased("one")).collect();
        assert!(!matches!(training.lease("two"), LeaseOutcome::Lease(_)));
        leases[3..].iter().for_each(|lease| training.done("one", lease));
        assert_eq!(training.taken(), 0, "the first is not taken");
        leases[..3].iter().for_each(|lease| training.done("one", lease));
        assert_eq!(training.taken(), 2);
    }

    #[test]
    fn a_position_is_cut_at_a_complete_step() {
        let mut training = Training::new(75, 0);
        let leases: Vec<Lease> = (0..3).map(|_| training.leased("one")).collect();
        leases.iter().for_each(|lease| training.done("one", lease));
        let next = training.leased("one");
        training.done("one", &next);
        let position = training.ledger.position();
        assert_eq!(position.datasets["clicks"].epochs[&0].fresh, 3, "the batch that is done waits for its step");
        training.ledger.restore(position, training.now, &mut training.facts).unwrap();
        assert_eq!(training.taken(), 1);
        assert_eq!(training.leased("two").batches.first, 3);
    }
}
