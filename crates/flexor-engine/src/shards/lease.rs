//! Which batches a worker gets next.
//!
//! In this order: what it was granted before and has not leased; what is suspected, if it has nothing else; what came
//! back; what was never granted; the next epoch; half of what another was granted and has not leased. A worker that can
//! replay is granted more than it asks for, so that most leases need no write.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::Reason;

use super::grant::{GrantId, Promise};
use super::ranges::Batches;
use super::worker::WorkerId;
use super::{Because, Fact, Shards};

/// The most batches that are granted at a time.
const MOST: u64 = 4096;
/// A grant that was used up in less than the first is followed by a larger one, after more than the second by a smaller.
const TOO_SMALL: Duration = Duration::from_secs(5);
const TOO_LARGE: Duration = Duration::from_secs(20);

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Of which dataset.
    pub dataset: Arc<str>,
    /// At most how many batches.
    pub batches: u64,
    /// Only of this epoch.
    pub epoch: Option<u32>,
    /// What the worker does about answers that were lost.
    pub promise: Promise,
}

/// What it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leased {
    /// Batches.
    Lease(Lease),
    /// Nothing yet, for this reason.
    Wait(Because),
    /// Nothing any more.
    Finished,
}

/// Batches that are a worker's to go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// To acknowledge them with.
    pub grant: GrantId,
    /// Of which dataset.
    pub dataset: Arc<str>,
    /// Of which epoch.
    pub epoch: u32,
    /// Which.
    pub batches: Batches,
}

/// Batches that can be granted.
struct Found {
    epoch: u32,
    batches: Batches,
    alone: bool,
}

impl Shards {
    /// Leases batches to a worker.
    pub fn lease(
        &mut self,
        worker: &WorkerId,
        asked: &Asked,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) -> Result<Leased, Because> {
        self.clock.advance(now);
        if !self.datasets.contains_key(&asked.dataset) {
            let detail = format!("there is no dataset {}; register it first", asked.dataset);
            return Err(Because::new(Reason::UnknownDataset, detail));
        }
        self.admit(worker, facts)?;
        if self.grants_of(worker).any(|grant| self.grants[&grant].in_doubt) {
            let detail = format!("the master was started again; {worker} has to say what it holds");
            return Err(Because::new(Reason::WorkerInDoubt, detail));
        }
        self.take_back_the_stuck(facts);
        if self.grants_of(worker).any(|grant| self.grants[&grant].alone) {
            let detail = "a batch that the program may have failed of is gone through with no other beside it";
            return Ok(Leased::Wait(Because::new(Reason::SuspectAlone, detail)));
        }
        let grant = match self.unleased_of(worker, asked) {
            Some(grant) => grant,
            None => match self.find(worker, asked, facts).or_else(|| self.steal(worker, asked, facts)) {
                Some(found) => self.grant(worker, asked, found, facts),
                None => return self.nothing(worker, asked),
            },
        };
        let lease = self.lease_from(grant, asked.batches.max(1));
        if let (Some(known), Some(_)) = (self.workers.get_mut(&worker.name), &lease) {
            known.pace.leased(self.clock.now());
        }
        self.watch(grant);
        self.check(facts);
        lease.map(Leased::Lease).ok_or_else(|| Because::new(Reason::LeaseVoid, "nothing is left of what was granted"))
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

    fn unleased_of(&self, worker: &WorkerId, asked: &Asked) -> Option<GrantId> {
        self.grants_of(worker).find(|grant| {
            let held = &self.grants[grant];
            let fits = held.dataset == asked.dataset && asked.epoch.is_none_or(|epoch| epoch == held.epoch);
            fits && !held.unleased.is_empty()
        })
    }

    fn find(&mut self, worker: &WorkerId, asked: &Asked, facts: &mut Vec<Fact>) -> Option<Found> {
        loop {
            let dataset = self.datasets.get(&asked.dataset)?;
            let wanted = dataset.epochs.iter().filter(|(number, _)| asked.epoch.is_none_or(|one| one == **number));
            let found = wanted.filter_map(|(number, epoch)| self.of_epoch(worker, asked, *number, epoch)).next();
            if found.is_some() || !self.begin_next(asked, facts) {
                return found;
            }
        }
    }

    /// Begins the next epoch, if there is one and all of those before it are somebody's. Whether it has.
    fn begin_next(&mut self, asked: &Asked, facts: &mut Vec<Fact>) -> bool {
        let Some(dataset) = self.datasets.get(&asked.dataset) else { return false };
        let (epoch, batches) = (dataset.begun, dataset.spec.batches());
        let exhausted = match dataset.spec.steps {
            None => dataset.epochs.values().all(|epoch| epoch.available(batches) == 0),
            // A step of the next epoch is computed with what the last of this one has learnt.
            Some(_) => dataset.epochs.is_empty(),
        };
        let begins = exhausted && dataset.spec.has_epoch(epoch) && asked.epoch.is_none_or(|wanted| wanted == epoch);
        if begins {
            self.decide(Fact::Begun { dataset: Arc::clone(&asked.dataset), epoch }, facts);
        }
        begins
    }

    fn of_epoch(&self, worker: &WorkerId, asked: &Asked, number: u32, epoch: &super::Epoch) -> Option<Found> {
        let open = self.open_until(&self.datasets.get(&asked.dataset)?.spec, number, epoch);
        if let Some(batches) = epoch.suspects.first(1).filter(|_| !self.holds_leases(worker)) {
            return Some(Found { epoch: number, batches, alone: true });
        }
        let batches = epoch.next(self.block(worker, asked, epoch.available(open)), open)?;
        Some(Found { epoch: number, batches, alone: false })
    }

    /// Takes half of what another was granted and has not leased. Whoever has the most of it gives.
    fn steal(&mut self, worker: &WorkerId, asked: &Asked, facts: &mut Vec<Fact>) -> Option<Found> {
        let fits = |held: &super::Grant| {
            held.dataset == asked.dataset
                && held.worker != *worker
                && !held.in_doubt
                && !held.alone
                && asked.epoch.is_none_or(|epoch| epoch == held.epoch)
        };
        let candidates =
            self.stealable.iter().map(|grant| (*grant, &self.grants[grant])).filter(|(_, held)| fits(held));
        let (grant, held) = candidates.max_by_key(|(_, held)| held.unleased.count())?;
        let (epoch, half) = (held.epoch, held.unleased.count().div_ceil(2));
        let batches = held.unleased.last(half)?;
        let because =
            Because::new(Reason::SharedOut, format!("{worker} has nothing, {} had not begun it", held.worker));
        self.decide(Fact::Returned { grant, batches, repeated: 0, suspects: false, because }, facts);
        let count =
            if asked.promise == Promise::Forgets { batches.count.min(asked.batches.max(1)) } else { batches.count };
        Some(Found { epoch, batches: Batches::new(batches.first, count), alone: false })
    }

    fn grant(&mut self, worker: &WorkerId, asked: &Asked, found: Found, facts: &mut Vec<Fact>) -> GrantId {
        let grant = GrantId(self.last_grant + 1);
        let Found { epoch, batches, alone } = found;
        let dataset = Arc::clone(&asked.dataset);
        let worker = worker.clone();
        let name = Arc::clone(&worker.name);
        self.decide(Fact::Granted { grant, worker, dataset, epoch, batches, promise: asked.promise, alone }, facts);
        if let Some(known) = self.workers.get_mut(&name) {
            known.pace.last_grant = Some((batches.count, self.clock.now()));
        }
        grant
    }

    /// How many batches to grant: as many as last some seconds, but not so many that others have nothing to do.
    fn block(&self, worker: &WorkerId, asked: &Asked, available: u64) -> u64 {
        let least = asked.batches.max(1);
        if asked.promise == Promise::Forgets {
            return least;
        }
        let last = self.workers.get(&worker.name).and_then(|known| known.pace.last_grant);
        let wanted = last.map_or(least, |(count, at)| match self.clock.now().saturating_sub(at) {
            lasted if lasted < TOO_SMALL => count.saturating_mul(2),
            lasted if lasted > TOO_LARGE => count / 2,
            _ => count,
        });
        let share = available / (2 * self.workers.len().max(1) as u64);
        wanted.min(MOST).min(share).max(least)
    }

    /// Why there is nothing to lease.
    fn nothing(&self, worker: &WorkerId, asked: &Asked) -> Result<Leased, Because> {
        let dataset = &self.datasets[&asked.dataset];
        let unfinished = |number: u32| dataset.epochs.contains_key(&number);
        let over = match asked.epoch {
            Some(epoch) if epoch > dataset.begun => {
                let detail = format!("epoch {epoch} was asked for, and epoch {} has not begun", dataset.begun);
                return Err(Because::new(Reason::UnknownEpoch, detail));
            }
            Some(epoch) => !unfinished(epoch) && (epoch < dataset.begun || !dataset.spec.has_epoch(epoch)),
            None => dataset.epochs.is_empty(),
        };
        if over {
            return Ok(Leased::Finished);
        }
        let suspects = dataset.epochs.values().any(|epoch| !epoch.suspects.is_empty()) && self.holds_leases(worker);
        let because = if dataset.spec.steps.is_some() && !suspects {
            Because::new(Reason::StepNotCommitted, "the next step is computed when all of this one is done")
        } else if suspects {
            let detail = "what is left is suspected, and leased to a worker that has acknowledged all it holds";
            Because::new(Reason::SuspectAlone, detail)
        } else {
            Because::new(Reason::OthersHoldTheRest, "other workers have what is left")
        };
        Ok(Leased::Wait(because))
    }
}
