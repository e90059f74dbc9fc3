//! The ends of workers: what they had is for others, and what their program failed of is found out.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::{Reason, Round};

use super::grant::GrantId;
use super::{Cause, Fact, Shards, WorkerId};

/// How many lives that have ended for good are remembered: long enough for what was under way when they did.
const REMEMBERED: usize = 1024;

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was lost, or ended because others did: no batch is to blame.
    Lost,
    /// Its program failed, and no other failure came before.
    Failed,
    /// It has done its work.
    Finished,
}

impl Shards {
    /// A worker has ended for good, as whoever started it says. What it had not acknowledged is free again; of what its
    /// program failed is under suspicion.
    pub fn ended(&mut self, worker: &WorkerId, ending: Ending, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        self.end(worker, ending, facts);
        // Whoever counts its lives does not come back in this one.
        if worker.incarnation > 0 && !self.ended.contains(worker) {
            self.ended.push_back(worker.clone());
            if self.ended.len() > REMEMBERED {
                self.ended.pop_front();
            }
        }
        self.check(facts);
    }

    /// The program of a worker has failed in a round, perhaps because it lost its peers: whose fault it was is known when
    /// the nodes have met again ([`Shards::follow`]).
    pub fn failed(&mut self, worker: &WorkerId, round: Round, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        let is_new = !self.failed.iter().any(|(known, _)| known == worker);
        if is_new && self.knows(worker) {
            self.decide(Fact::Failed { worker: worker.clone(), round }, facts);
        }
        self.check(facts);
    }

    /// A worker has ended, or cannot be waited for any longer.
    pub(super) fn end(&mut self, worker: &WorkerId, ending: Ending, facts: &mut Vec<Fact>) {
        if !self.knows(worker) {
            return;
        }
        let cause = match ending {
            Ending::Lost => Cause::new(Reason::WorkerLost, format!("{worker} was lost")),
            Ending::Failed => Cause::new(Reason::ProgramFailed, format!("the program failed in {worker}")),
            Ending::Finished => Cause::new(Reason::WorkerEnded, format!("{worker} ended before it had done them")),
        };
        self.take_everything(worker, ending, &cause, facts);
        if self.failed.iter().any(|(known, _)| known == worker) {
            self.decide(Fact::Judged { worker: worker.clone() }, facts);
        }
        self.workers.remove(&worker.name);
    }

    pub(super) fn take_everything(&mut self, worker: &WorkerId, ending: Ending, cause: &Cause, facts: &mut Vec<Fact>) {
        let grants: Vec<GrantId> = self.grants_of(worker).collect();
        let in_progress: u64 = grants.iter().map(|grant| self.grants[grant].leased.count()).sum();
        for grant in grants {
            self.take_grant(grant, ending, in_progress, cause, facts);
        }
    }

    /// Takes a grant back. `in_progress` is how many batches its worker was at when it ended.
    pub(super) fn take_grant(
        &mut self,
        grant: GrantId,
        ending: Ending,
        in_progress: u64,
        cause: &Cause,
        facts: &mut Vec<Fact>,
    ) {
        let Some(held) = self.grants.get(&grant) else { return };
        let (leased, unleased) = (held.leased.clone(), held.unleased.clone());
        let (dataset, epoch) = (Arc::clone(&held.dataset), held.epoch);
        let suspects = ending == Ending::Failed && !held.in_doubt;
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

    /// The program has failed of one batch, with no other that could be to blame.
    fn charge(&mut self, dataset: &Arc<str>, epoch: u32, batch: u64, facts: &mut Vec<Fact>) {
        self.decide(Fact::Charged { dataset: Arc::clone(dataset), epoch, batch }, facts);
        let blame = self.datasets.get(dataset).and_then(|known| known.blame.get(&epoch));
        let failures = blame.and_then(|blame| blame.failures.get(&batch)).copied().unwrap_or(0);
        if failures >= self.settings.quarantine_after {
            let detail = format!("the program failed {failures} times of batch {batch} of epoch {epoch} alone");
            let cause = Cause::new(Reason::BatchQuarantined, detail);
            self.decide(Fact::Quarantined { dataset: Arc::clone(dataset), epoch, batch, cause }, facts);
        }
    }
}
