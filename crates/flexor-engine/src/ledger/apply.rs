//! Applies facts to the ledger. Journaled state changes here and nowhere else, so replaying the facts rebuilds the same
//! ledger.

use std::sync::Arc;

use super::Ledger;
use super::dataset_state::DatasetState;
use super::fact::Fact;
use super::grant::{Grant, GrantId};
use super::ranges::{Batches, Ranges};
use super::worker::Worker;

impl Ledger {
    pub(super) fn decide(&mut self, fact: Fact, facts: &mut Vec<Fact>) {
        self.apply(&fact);
        facts.push(fact);
    }

    pub(super) fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::Registered { spec } => {
                self.availability_version += 1;
                self.datasets.insert(Arc::clone(&spec.name), DatasetState::new(spec.clone()));
            }
            Fact::EpochBegun { dataset, epoch } => {
                if let Some(known) = self.datasets.get_mut(dataset) {
                    known.begin(*epoch);
                }
            }
            Fact::Granted { grant, worker, dataset, epoch, batches, client, alone } => {
                let Some(of) = self.datasets.get_mut(dataset) else { return };
                let all = of.spec.batches();
                let Some(known) = of.epochs.get_mut(epoch) else { return };
                known.grant(*batches);
                // The next epoch can begin.
                self.availability_version += u64::from(known.available(all) == 0);
                self.stealable.insert(*grant);
                let unleased = Ranges::from(vec![*batches]);
                let held = Grant {
                    worker: worker.clone(),
                    dataset: Arc::clone(dataset),
                    epoch: *epoch,
                    client: *client,
                    alone: *alone,
                    unleased,
                    leased: Ranges::default(),
                    accounted: Ranges::default(),
                    in_doubt: false,
                    progress_at: self.clock.now(),
                };
                self.grants.insert(*grant, held);
                self.last_grant = self.last_grant.max(grant.0);
                let entry = self.workers.entry(Arc::clone(&worker.name));
                let known = entry.or_insert_with(|| Worker::new(worker.incarnation));
                if known.incarnation != worker.incarnation {
                    *known = Worker::new(worker.incarnation);
                }
                known.grants.insert(*grant);
            }
            Fact::Accounted { grant, batches } => {
                let Some(held) = self.grants.get_mut(grant) else { return };
                let taken = held.withdraw(*batches);
                if held.unleased.is_empty() {
                    self.stealable.remove(grant);
                }
                taken.iter().for_each(|batches| held.accounted.insert(batches));
                let (dataset, number) = (Arc::clone(&held.dataset), held.epoch);
                let was_alone = held.alone;
                if let Some(known) = self.datasets.get_mut(&dataset) {
                    known.account(number, &taken);
                    let is_step = known.spec.steps.is_some();
                    let ends = !known.epochs.contains_key(&number);
                    self.availability_version += u64::from(is_step || was_alone || ends || known.has_suspects());
                }
                if let Some(done) = self.forget_if_done(*grant)
                    && let Some(worker) = self.workers.get_mut(&done.worker.name)
                    && worker.incarnation == done.worker.incarnation
                {
                    worker.remember_done(*grant);
                }
            }
            Fact::Returned { grant, batches, repeated, suspects, .. } => {
                self.availability_version += 1;
                let Some(held) = self.grants.get_mut(grant) else { return };
                let taken = held.withdraw(*batches);
                if held.unleased.is_empty() {
                    self.stealable.remove(grant);
                }
                let (dataset, number) = (Arc::clone(&held.dataset), held.epoch);
                // A suspect that was returned for another reason is still a suspect.
                let suspects = *suspects || held.alone;
                if let Some(known) = self.datasets.get_mut(&dataset) {
                    known.take_back(number, &taken, suspects);
                    known.repeated += repeated;
                }
                self.forget_if_done(*grant);
            }
            Fact::Failed { worker, round } => self.failed.push((worker.clone(), *round)),
            Fact::FailureSettled { worker } => self.failed.retain(|(known, _)| known != worker),
            Fact::BatchTimeMeasured { dataset, batch_time } => {
                if let Some(known) = self.datasets.get_mut(dataset) {
                    known.batch_time = Some(*batch_time);
                }
            }
            Fact::Charged { dataset, epoch, batch } => {
                if let Some(known) = self.datasets.get_mut(dataset) {
                    *known.blame.entry(*epoch).or_default().failures.entry(*batch).or_default() += 1;
                }
            }
            Fact::Quarantined { dataset, epoch, batch, .. } => {
                self.availability_version += 1;
                if let Some(known) = self.datasets.get_mut(dataset) {
                    known.quarantine(*epoch, Batches::new(*batch, 1));
                }
            }
            Fact::Rewound { position } => {
                self.availability_version += 1;
                self.rewind(position);
            }
        }
    }

    /// Removes and returns a grant without outstanding batches.
    fn forget_if_done(&mut self, grant: GrantId) -> Option<Grant> {
        let held = self.grants.get(&grant).filter(|held| held.outstanding() == 0)?;
        if let Some(worker) = self.workers.get_mut(&held.worker.name) {
            worker.grants.remove(&grant);
        }
        self.grants.remove(&grant)
    }
}
