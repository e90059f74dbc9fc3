//! Committed steps of synchronous training, for the servers.
//!
//! The ledger determines which steps are committed. A server that learns of a step applies its buffered gradients on every
//! partition. Steps and maps reach a server in order, so a step from before a rewind is never taken for a later one.

use flexor_engine::ledger::{DatasetSpec, Ledger};
use flexor_engine::ps_membership::{Mode, PsMembership};
use flexor_wire::master::v1 as wire;

use super::{Servers, State};

/// Steps per message.
const MAX_STEPS: u64 = 1024;

impl Servers {
    /// The number of committed steps, with the batches of the last; none in asynchronous training.
    pub(super) fn steps(&self, state: &State) -> Option<wire::CommittedSteps> {
        self.0.data.with_ledger(|ledger| {
            let spec = ledger.synchronous_dataset()?;
            let committed = releasable(ledger, spec, state)?;
            Some(message(ledger, spec, &state.members, committed.saturating_sub(1)..committed, committed))
        })
    }

    /// The batches of steps from `first` on, for a server that misses them. Only published steps: later ones may not be
    /// durable, or are held back for a checkpoint.
    pub(crate) fn steps_from(&self, first: u64) -> Option<wire::CommittedSteps> {
        let published = self.published().borrow().steps.clone()?;
        let state = self.lock();
        if state.members.rewind_epoch().0 != published.rewind_epoch {
            return None;
        }
        self.0.data.with_ledger(|ledger| {
            let named = first..published.committed.min(first.saturating_add(MAX_STEPS));
            Some(message(ledger, ledger.synchronous_dataset()?, &state.members, named, published.committed))
        })
    }

    pub(super) fn mode(&self) -> Mode {
        let is_synchronous = self.0.data.with_ledger(|ledger| ledger.synchronous_dataset().is_some());
        if is_synchronous { Mode::Sync } else { Mode::Async }
    }
}

/// The number of steps that servers may commit: a checkpoint may hold them at one.
fn releasable(ledger: &Ledger, spec: &DatasetSpec, state: &State) -> Option<u64> {
    let committed = ledger.steps_taken(&spec.name)?;
    Some(state.members.held_step().map_or(committed, |held| committed.min(held)))
}

fn message(
    ledger: &Ledger,
    spec: &DatasetSpec,
    members: &PsMembership,
    named: std::ops::Range<u64>,
    committed: u64,
) -> wire::CommittedSteps {
    let named = named.filter_map(|step| {
        let found = ledger.batches_of_step(&spec.name, step)?;
        let batch = |number: u64| wire::StepBatch {
            first: number * spec.batch.get(),
            records: u32::try_from(spec.batch_length(number)).unwrap_or(u32::MAX),
        };
        let batches = found.batches.into_iter().map(batch).collect();
        Some(wire::CommittedStep { step, dataset: spec.number(), epoch: found.epoch, batches })
    });
    wire::CommittedSteps { rewind_epoch: members.rewind_epoch().0, committed, steps: named.collect() }
}
