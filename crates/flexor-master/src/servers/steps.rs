//! Steps of synchronous training, as servers hear of them.
//!
//! Which steps are taken follows from the ledger; a server that hears of one applies what waits for it, on every
//! partition that it keeps. All are told in the same order as maps, so that nobody takes a step of before a return to a
//! checkpoint for one of after it.

use flexor_engine::ledger::{DatasetSpec, Ledger};
use flexor_engine::psmembers::{Mode, PsMembers};
use flexor_wire::master::v1 as wire;

use super::{Servers, State};

/// How many steps one message names at most.
const NAMED: u64 = 1024;

impl Servers {
    /// How many steps are taken, with the batches of the last; nothing where training does not go in steps.
    pub(super) fn steps(&self, state: &State) -> Option<wire::StepsTaken> {
        self.0.data.with_ledger(|ledger| {
            let spec = ledger.synchronous_dataset()?;
            let taken = taken(ledger, spec, state)?;
            Some(of(ledger, spec, &state.members, taken.saturating_sub(1)..taken, taken))
        })
    }

    /// The batches of steps from this one on, for a server that has missed them. No more than everybody was told: what was
    /// decided since may not be durable, or be held back.
    pub(crate) fn steps_from(&self, first: u64) -> Option<wire::StepsTaken> {
        let told = self.told().borrow().steps.clone()?;
        let state = self.lock();
        if state.members.rewound().0 != told.rewound {
            return None;
        }
        self.0.data.with_ledger(|ledger| {
            let named = first..told.taken.min(first.saturating_add(NAMED));
            Some(of(ledger, ledger.synchronous_dataset()?, &state.members, named, told.taken))
        })
    }

    /// Whether updates are applied as they come, or in steps.
    pub(super) fn mode(&self) -> Mode {
        let is_stepped = self.0.data.with_ledger(|ledger| ledger.synchronous_dataset().is_some());
        if is_stepped { Mode::Sync } else { Mode::Async }
    }
}

/// How many steps servers may know of: none more while a checkpoint is held at one.
fn taken(ledger: &Ledger, spec: &DatasetSpec, state: &State) -> Option<u64> {
    let taken = ledger.steps_taken(&spec.name)?;
    Some(state.members.held_at().map_or(taken, |held| taken.min(held)))
}

fn of(
    ledger: &Ledger,
    spec: &DatasetSpec,
    members: &PsMembers,
    named: std::ops::Range<u64>,
    taken: u64,
) -> wire::StepsTaken {
    let named = named.filter_map(|step| {
        let found = ledger.batches_of_step(&spec.name, step)?;
        let batch = |number: u64| wire::StepBatch {
            first: number * spec.batch.get(),
            records: u32::try_from(spec.batch_length(number)).unwrap_or(u32::MAX),
        };
        let batches = found.batches.into_iter().map(batch).collect();
        Some(wire::StepTaken { step, dataset: spec.number(), epoch: found.epoch, batches })
    });
    wire::StepsTaken { rewound: members.rewound().0, taken, steps: named.collect() }
}
