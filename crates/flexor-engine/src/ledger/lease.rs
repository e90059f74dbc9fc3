//! Decides which batches a worker gets next.
//!
//! The order: unleased batches of its own grants; suspects, if it holds nothing else; returned batches; batches never
//! granted; the next epoch; half of the unleased batches of another worker. A resuming worker is granted more than it
//! requests, so most leases need no write.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::Reason;

use super::grant::{ClientKind, GrantId};
use super::ranges::Batches;
use super::worker::WorkerId;
use super::{Cause, Fact, Ledger};

/// The most batches of one grant.
const MAX_GRANT_BATCHES: u64 = 4096;
/// A grant used up within the first duration is followed by a larger one; after the second, by a smaller one.
const TOO_SMALL: Duration = Duration::from_secs(5);
const TOO_LARGE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    pub dataset: Arc<str>,
    pub batches: u64,
    pub epoch: Option<u32>,
    /// Whether the worker can resume.
    pub client: ClientKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseOutcome {
    Lease(Lease),
    /// No batch is available at present.
    Wait(Cause),
    /// The dataset, or the requested epoch, is finished.
    Finished,
}

/// Batches that a worker may process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Acknowledgements name it.
    pub grant: GrantId,
    pub dataset: Arc<str>,
    pub epoch: u32,
    pub batches: Batches,
}

struct Candidate {
    epoch: u32,
    batches: Batches,
    alone: bool,
}

impl Ledger {
    pub fn lease(
        &mut self,
        worker: &WorkerId,
        request: &LeaseRequest,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) -> Result<LeaseOutcome, Cause> {
        self.clock.advance(now);
        if !self.datasets.contains_key(&request.dataset) {
            let detail = format!("dataset {} is not registered; register it first", request.dataset);
            return Err(Cause::new(Reason::UnknownDataset, detail));
        }
        self.admit(worker, facts)?;
        if self.grants_of(worker).any(|grant| self.grants[&grant].in_doubt) {
            let detail = format!("the master was restarted; {worker} must resume before it leases more");
            return Err(Cause::new(Reason::WorkerInDoubt, detail));
        }
        self.expire_leases(facts);
        if self.grants_of(worker).any(|grant| self.grants[&grant].alone) {
            let detail = "the worker holds a suspected batch, which is processed alone";
            return Ok(LeaseOutcome::Wait(Cause::new(Reason::SuspectIsolated, detail)));
        }
        let grant = match self.unleased_of(worker, request) {
            Some(grant) => grant,
            None => match self.find(worker, request, facts).or_else(|| self.steal(worker, request, facts)) {
                Some(candidate) => self.grant(worker, request, candidate, facts),
                None => return self.nothing_to_lease(worker, request),
            },
        };
        let lease = self.lease_from(grant, request.batches.max(1));
        if let (Some(known), Some(_)) = (self.workers.get_mut(&worker.name), &lease) {
            known.pace.record_lease(self.clock.now());
        }
        self.schedule_check(grant);
        self.check(facts);
        lease.map(LeaseOutcome::Lease).ok_or_else(|| Cause::new(Reason::LeaseVoid, "the grant has no batch left"))
    }

    fn lease_from(&mut self, grant: GrantId, most: u64) -> Option<Lease> {
        let held = self.grants.get_mut(&grant)?;
        let batches = held.unleased.first(most)?;
        held.unleased.remove(batches);
        if held.unleased.is_empty() {
            self.stealable.remove(&grant);
        }
        held.leased.insert(batches);
        held.progress_at = self.clock.now();
        Some(Lease { grant, dataset: Arc::clone(&held.dataset), epoch: held.epoch, batches })
    }

    fn unleased_of(&self, worker: &WorkerId, request: &LeaseRequest) -> Option<GrantId> {
        self.grants_of(worker).find(|grant| {
            let held = &self.grants[grant];
            let fits = held.dataset == request.dataset && request.epoch.is_none_or(|epoch| epoch == held.epoch);
            fits && !held.unleased.is_empty()
        })
    }

    fn find(&mut self, worker: &WorkerId, request: &LeaseRequest, facts: &mut Vec<Fact>) -> Option<Candidate> {
        loop {
            let dataset = self.datasets.get(&request.dataset)?;
            let epochs =
                dataset.epochs.iter().filter(|(number, _)| request.epoch.is_none_or(|requested| requested == **number));
            let candidate =
                epochs.filter_map(|(number, epoch)| self.find_in_epoch(worker, request, *number, epoch)).next();
            if candidate.is_some() || !self.begin_next_epoch(request, facts) {
                return candidate;
            }
        }
    }

    /// Begins the next epoch if one is left and all batches of the earlier ones are granted. Returns whether it did.
    fn begin_next_epoch(&mut self, request: &LeaseRequest, facts: &mut Vec<Fact>) -> bool {
        let Some(dataset) = self.datasets.get(&request.dataset) else { return false };
        let (epoch, batches) = (dataset.begun, dataset.spec.batches());
        let exhausted = match dataset.spec.steps {
            None => dataset.epochs.values().all(|epoch| epoch.available(batches) == 0),
            // A synchronous step of the next epoch uses the parameters after the last step of this one.
            Some(_) => dataset.epochs.is_empty(),
        };
        let begins =
            exhausted && dataset.spec.has_epoch(epoch) && request.epoch.is_none_or(|requested| requested == epoch);
        if begins {
            self.decide(Fact::EpochBegun { dataset: Arc::clone(&request.dataset), epoch }, facts);
        }
        begins
    }

    fn find_in_epoch(
        &self,
        worker: &WorkerId,
        request: &LeaseRequest,
        number: u32,
        epoch: &super::Epoch,
    ) -> Option<Candidate> {
        let open = self.leasable_until(&self.datasets.get(&request.dataset)?.spec, number, epoch);
        if let Some(batches) = epoch.suspects.first(1).filter(|_| !self.holds_leases(worker)) {
            return Some(Candidate { epoch: number, batches, alone: true });
        }
        let batches = epoch.next(self.grant_size(worker, request, epoch.available(open)), open)?;
        Some(Candidate { epoch: number, batches, alone: false })
    }

    /// Steals half of the unleased batches of the worker that has the most of them.
    fn steal(&mut self, worker: &WorkerId, request: &LeaseRequest, facts: &mut Vec<Fact>) -> Option<Candidate> {
        let fits = |held: &super::Grant| {
            held.dataset == request.dataset
                && held.worker != *worker
                && !held.in_doubt
                && !held.alone
                && request.epoch.is_none_or(|epoch| epoch == held.epoch)
        };
        let candidates =
            self.stealable.iter().map(|grant| (*grant, &self.grants[grant])).filter(|(_, held)| fits(held));
        let (grant, held) = candidates.max_by_key(|(_, held)| held.unleased.count())?;
        let (epoch, half) = (held.epoch, held.unleased.count().div_ceil(2));
        let batches = held.unleased.last(half)?;
        let cause =
            Cause::new(Reason::LeaseStolen, format!("{worker} is idle and {} has not leased them", held.worker));
        self.decide(Fact::Returned { grant, batches, repeated: 0, suspects: false, cause }, facts);
        let count = if request.client == ClientKind::Stateless {
            batches.count.min(request.batches.max(1))
        } else {
            batches.count
        };
        Some(Candidate { epoch, batches: Batches::new(batches.first, count), alone: false })
    }

    fn grant(
        &mut self,
        worker: &WorkerId,
        request: &LeaseRequest,
        candidate: Candidate,
        facts: &mut Vec<Fact>,
    ) -> GrantId {
        let grant = GrantId(self.last_grant + 1);
        let Candidate { epoch, batches, alone } = candidate;
        let dataset = Arc::clone(&request.dataset);
        let worker = worker.clone();
        let name = Arc::clone(&worker.name);
        self.decide(Fact::Granted { grant, worker, dataset, epoch, batches, client: request.client, alone }, facts);
        if let Some(known) = self.workers.get_mut(&name) {
            known.pace.last_grant = Some((batches.count, self.clock.now()));
        }
        grant
    }

    /// How many batches to grant: enough for some seconds, but leaving work for other workers.
    fn grant_size(&self, worker: &WorkerId, request: &LeaseRequest, available: u64) -> u64 {
        let least = request.batches.max(1);
        if request.client == ClientKind::Stateless {
            return least;
        }
        let last = self.workers.get(&worker.name).and_then(|known| known.pace.last_grant);
        let target = last.map_or(least, |(count, at)| match self.clock.now().saturating_sub(at) {
            lasted if lasted < TOO_SMALL => count.saturating_mul(2),
            lasted if lasted > TOO_LARGE => count / 2,
            _ => count,
        });
        let share = available / (2 * self.workers.len().max(1) as u64);
        target.min(MAX_GRANT_BATCHES).min(share).max(least)
    }

    /// The answer when no batch is available.
    fn nothing_to_lease(&self, worker: &WorkerId, request: &LeaseRequest) -> Result<LeaseOutcome, Cause> {
        let dataset = &self.datasets[&request.dataset];
        let unfinished = |number: u32| dataset.epochs.contains_key(&number);
        let over = match request.epoch {
            Some(epoch) if epoch > dataset.begun => {
                let detail = format!("epoch {epoch} was requested, and epoch {} has not begun", dataset.begun);
                return Err(Cause::new(Reason::UnknownEpoch, detail));
            }
            Some(epoch) => !unfinished(epoch) && (epoch < dataset.begun || !dataset.spec.has_epoch(epoch)),
            None => dataset.epochs.is_empty(),
        };
        if over {
            return Ok(LeaseOutcome::Finished);
        }
        let suspects = dataset.epochs.values().any(|epoch| !epoch.suspects.is_empty()) && self.holds_leases(worker);
        let cause = if dataset.spec.steps.is_some() && !suspects {
            Cause::new(Reason::StepNotCommitted, "batches of the next step are leased when this step is complete")
        } else if suspects {
            let detail = "the remaining batches are suspects, and go to a worker that holds nothing else";
            Cause::new(Reason::SuspectIsolated, detail)
        } else {
            Cause::new(Reason::NoBatchesAvailable, "other workers hold the remaining batches")
        };
        Ok(LeaseOutcome::Wait(cause))
    }
}
