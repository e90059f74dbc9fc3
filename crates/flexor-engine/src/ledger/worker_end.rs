//! The end of a worker: its batches become free, and the batches that its program may have failed on become suspects.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::{Reason, Round};

use super::grant::GrantId;
use super::{Cause, Fact, Ledger, WorkerId};

/// How many ended incarnations are remembered, so that their late requests are refused.
const REMEMBERED: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerEnd {
    /// The worker was lost, or ended because others did. No batch is to blame.
    Lost,
    /// The program failed first in this worker.
    Failed,
    /// The program completed.
    Finished,
}

impl Ledger {
    /// A worker has ended for good, as its launcher reports. Its unacknowledged batches become free; after a failure of
    /// its program they become suspects.
    pub fn worker_ended(&mut self, worker: &WorkerId, end: WorkerEnd, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        self.end(worker, end, facts);
        // A client that counts its incarnations does not return in this one.
        if worker.incarnation > 0 && !self.ended.contains(worker) {
            self.ended.push_back(worker.clone());
            if self.ended.len() > REMEMBERED {
                self.ended.pop_front();
            }
        }
        self.check(facts);
    }

    /// The program of a worker has failed in a round, perhaps because it lost its peers. [`Ledger::observe_nodes`]
    /// decides later which worker caused the failure.
    pub fn worker_failed(&mut self, worker: &WorkerId, round: Round, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        let is_new = !self.failed.iter().any(|(known, _)| known == worker);
        if is_new && self.has_worker(worker) {
            self.decide(Fact::Failed { worker: worker.clone(), round }, facts);
        }
        self.check(facts);
    }

    /// Removes a worker that has ended, or did not reconnect in time.
    pub(super) fn end(&mut self, worker: &WorkerId, end: WorkerEnd, facts: &mut Vec<Fact>) {
        if !self.has_worker(worker) {
            return;
        }
        let cause = match end {
            WorkerEnd::Lost => Cause::new(Reason::WorkerLost, format!("{worker} was lost")),
            WorkerEnd::Failed => Cause::new(Reason::ProgramFailed, format!("the program failed in {worker}")),
            WorkerEnd::Finished => {
                Cause::new(Reason::WorkerEnded, format!("{worker} ended before it acknowledged them"))
            }
        };
        self.return_all_grants(worker, end, &cause, facts);
        if self.failed.iter().any(|(known, _)| known == worker) {
            self.decide(Fact::FailureSettled { worker: worker.clone() }, facts);
        }
        self.workers.remove(&worker.name);
    }

    pub(super) fn return_all_grants(
        &mut self,
        worker: &WorkerId,
        end: WorkerEnd,
        cause: &Cause,
        facts: &mut Vec<Fact>,
    ) {
        let grants: Vec<GrantId> = self.grants_of(worker).collect();
        let in_progress: u64 = grants.iter().map(|grant| self.grants[grant].leased.count()).sum();
        for grant in grants {
            self.return_grant(grant, end, in_progress, cause, facts);
        }
    }

    /// Returns a grant. `in_progress` counts the leased batches of its worker when it ended.
    pub(super) fn return_grant(
        &mut self,
        grant: GrantId,
        end: WorkerEnd,
        in_progress: u64,
        cause: &Cause,
        facts: &mut Vec<Fact>,
    ) {
        let Some(held) = self.grants.get(&grant) else { return };
        let (leased, unleased) = (held.leased.clone(), held.unleased.clone());
        let (dataset, epoch) = (Arc::clone(&held.dataset), held.epoch);
        let suspects = end == WorkerEnd::Failed && !held.in_doubt;
        for batches in unleased.iter() {
            let cause = cause.clone();
            self.decide(Fact::Returned { grant, batches, repeated: 0, suspects: false, cause }, facts);
        }
        for batches in leased.iter() {
            let repeated = self.datasets[&dataset].spec.records_in(batches);
            let cause = cause.clone();
            self.decide(Fact::Returned { grant, batches, repeated, suspects, cause }, facts);
        }
        if suspects
            && in_progress == 1
            && let Some(batch) = leased.first(1).map(|batches| batches.first)
        {
            self.charge(&dataset, epoch, batch, facts);
        }
    }

    /// The program has failed on one batch while its worker held no other.
    fn charge(&mut self, dataset: &Arc<str>, epoch: u32, batch: u64, facts: &mut Vec<Fact>) {
        self.decide(Fact::Charged { dataset: Arc::clone(dataset), epoch, batch }, facts);
        let blame = self.datasets.get(dataset).and_then(|known| known.blame.get(&epoch));
        let failures = blame.and_then(|blame| blame.failures.get(&batch)).copied().unwrap_or(0);
        if failures >= self.settings.quarantine_after {
            let detail = format!("the program failed {failures} times on batch {batch} of epoch {epoch} alone");
            let cause = Cause::new(Reason::BatchQuarantined, detail);
            self.decide(Fact::Quarantined { dataset: Arc::clone(dataset), epoch, batch, cause }, facts);
        }
    }
}
