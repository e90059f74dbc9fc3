//! The data ledger: which worker has which batch of which epoch, which batches are done, and which are left.
//!
//! Workers lease batches, acknowledge them, release them or are lost with them. The ledger answers each request and
//! decides [`Fact`]s. Every record of an epoch is always accounted for, quarantined or outstanding. Losing a machine
//! never drops a record. State is kept in ranges, so its size grows with the number of gaps.
//!
//! The ledger does *not* read data: a batch is a number, and [`DatasetSpec::records_of`] maps it to records. It does
//! not detect lost workers: the master reports them, or the worker's lease times out.

mod apply;
mod dataset_spec;
mod dataset_state;
mod epoch;
mod fact;
mod grant;
pub mod invariants;
mod journal_loss;
mod lease;
mod lease_timeout;
mod observed_nodes;
mod order;
mod position;
mod ranges;
mod rewind;
#[cfg(test)]
mod simulation;
mod steps;
#[cfg(test)]
mod tests;
mod totals;
mod worker;
mod worker_end;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use flexor_model::{Reason, Round};
use serde::{Deserialize, Serialize};

use crate::active_clock::ActiveClock;
pub use crate::cause::Cause;
pub use dataset_spec::{DatasetError, DatasetSpec};
use dataset_state::DatasetState;
use epoch::Epoch;
pub use fact::Fact;
use grant::Grant;
pub use grant::{ClientKind, GrantId};
pub use journal_loss::LostFacts;
pub use lease::{Lease, LeaseOutcome, LeaseRequest};
pub use observed_nodes::ObservedNodes;
pub use order::{Order, Records};
pub use position::{DatasetPosition, EpochPosition, Position};
pub use ranges::{Batches, Ranges};
pub use steps::{StepBatches, StepSpec};
pub use totals::Totals;
use worker::Worker;
pub use worker::WorkerId;
pub use worker_end::WorkerEnd;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How often the program may fail on a batch that it holds alone before the batch is quarantined.
    pub quarantine_after: u32,
    /// The lease timeout never falls below this, however fast the worker was.
    pub min_lease_timeout: Duration,
    /// The lease timeout while no batch time is known.
    pub initial_lease_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        // With the default of three restarts a job survives one bad batch among many: it fails once with others, then
        // twice alone.
        let (min_lease_timeout, initial_lease_timeout) = (Duration::from_secs(10), Duration::from_secs(600));
        Self { quarantine_after: 2, min_lease_timeout, initial_lease_timeout }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ledger {
    #[serde(skip)]
    settings: Settings,
    datasets: BTreeMap<Arc<str>, DatasetState>,
    grants: BTreeMap<GrantId, Grant>,
    workers: BTreeMap<Arc<str>, Worker>,
    /// Workers whose program failed, with the round, in the order of the reports. The next round shows which worker
    /// caused the failure; until then they keep their grants.
    #[serde(default)]
    failed: Vec<(WorkerId, Round)>,
    last_grant: u64,
    /// Grants with unleased batches.
    #[serde(skip)]
    stealable: BTreeSet<GrantId>,
    /// The latest incarnations that ended for good.
    #[serde(skip)]
    ended: VecDeque<WorkerId>,
    /// The live nodes of the last observation.
    #[serde(skip)]
    nodes: BTreeSet<Arc<str>>,
    #[serde(skip)]
    clock: ActiveClock,
    /// No lease times out before this.
    #[serde(skip)]
    check_at: Duration,
    /// Grows whenever a waiting lease request may get another answer.
    #[serde(skip)]
    availability_version: u64,
}

impl Ledger {
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Puts a ledger to work that was read from a snapshot or replayed from facts. Grants of resuming workers are in
    /// doubt until the worker resumes. All other lease timeouts start anew.
    pub fn resume(mut self, settings: Settings, now: Duration) -> Self {
        self.settings = settings;
        self.clock = ActiveClock::since(now);
        for grant in self.grants.values_mut() {
            let unleased = std::mem::take(&mut grant.unleased);
            unleased.iter().for_each(|batches| grant.leased.insert(batches));
            grant.in_doubt = grant.client == ClientKind::Resuming;
            grant.progress_at = now;
        }
        self.stealable.clear();
        let in_doubt = self.in_doubt();
        for (name, worker) in &mut self.workers {
            worker.pace.progress_at = now;
            worker.of_node = true;
            let id = WorkerId::new(Arc::clone(name), worker.incarnation);
            worker.away_until = in_doubt.contains(&id).then_some(now + lease_timeout::RESUME_TIMEOUT);
        }
        self.check_at = now;
        self
    }

    /// Registers a dataset. Every worker may register the same one.
    pub fn register(&mut self, spec: DatasetSpec, facts: &mut Vec<Fact>) -> Result<(), Cause> {
        match self.datasets.get(&spec.name) {
            Some(known) if known.spec == spec => Ok(()),
            Some(known) => {
                let detail = format!(
                    "{} is registered with {}, not with {}; register changed data under another name",
                    spec.name,
                    known.spec.describe(),
                    spec.describe(),
                );
                Err(Cause::new(Reason::DatasetChanged, detail))
            }
            None => {
                self.decide(Fact::Registered { spec }, facts);
                Ok(())
            }
        }
    }

    /// Acknowledges batches of a lease. Returns how many records this accounts for: 0 for batches acknowledged before.
    pub fn acknowledge(
        &mut self,
        worker: &WorkerId,
        grant: GrantId,
        batches: Batches,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) -> Result<u64, Cause> {
        self.clock.advance(now);
        self.refuse_earlier_incarnation(worker)?;
        if self.has_completed(worker, grant) {
            return Ok(0);
        }
        let held = self.grant_held_by(worker, grant)?;
        let open = held.leased.within(batches);
        let known = open.count() + held.accounted.within(batches).count();
        if batches.count == 0 || known != batches.count {
            let detail = format!("{batches} of lease {grant} were not leased to {worker}, or were returned");
            return Err(Cause::new(Reason::LeaseVoid, detail));
        }
        let dataset = Arc::clone(&held.dataset);
        let spec = &self.datasets[&dataset].spec;
        let records = open.iter().map(|batches| spec.records_in(batches)).sum();
        let count = open.count();
        for batches in open.iter() {
            self.decide(Fact::Accounted { grant, batches }, facts);
        }
        self.record_progress(worker, grant, &dataset, count, facts);
        self.check(facts);
        Ok(records)
    }

    /// Takes back batches that the worker did not use.
    pub fn release(
        &mut self,
        worker: &WorkerId,
        grant: GrantId,
        batches: Batches,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) -> Result<(), Cause> {
        self.clock.advance(now);
        self.refuse_earlier_incarnation(worker)?;
        let open = self.grant_held_by(worker, grant)?.leased.within(batches);
        for batches in open.iter() {
            let cause = Cause::new(Reason::LeaseReleased, format!("{worker} released {batches}"));
            // Released batches count as unused, so none of their records is repeated.
            self.decide(Fact::Returned { grant, batches, repeated: 0, suspects: false, cause }, facts);
        }
        self.check(facts);
        Ok(())
    }

    /// A worker resumes with this master or its successor. It states the batches it holds, and those it acknowledged
    /// without learning that they are durable. Every other batch of its grants becomes free. Returns the batches that
    /// it claims and does not hold: it must not process them.
    pub fn resume_worker(
        &mut self,
        worker: &WorkerId,
        holds: &[(GrantId, Batches)],
        acknowledged: &[(GrantId, Batches)],
        now: Duration,
        facts: &mut Vec<Fact>,
    ) -> Result<Vec<(GrantId, Batches)>, Cause> {
        self.clock.advance(now);
        self.admit(worker, facts)?;
        self.session_opened(worker);
        for (grant, batches) in acknowledged {
            let Ok(held) = self.grant_held_by(worker, *grant) else { continue };
            for batches in held.leased.within(*batches).iter() {
                self.decide(Fact::Accounted { grant: *grant, batches }, facts);
            }
        }
        let mut void = Vec::new();
        let mut keeps: BTreeMap<GrantId, Ranges> = BTreeMap::new();
        for (grant, batches) in holds {
            match self.grant_held_by(worker, *grant) {
                Ok(held) if held.leased.within(*batches).count() == batches.count => {
                    keeps.entry(*grant).or_default().insert(*batches);
                }
                Ok(_) | Err(_) => void.push((*grant, *batches)),
            }
        }
        let grants: Vec<GrantId> = self.grants_of(worker).collect();
        for grant in grants {
            let Some(held) = self.grants.get_mut(&grant) else { continue };
            held.in_doubt = false;
            held.progress_at = self.clock.now();
            let mut free = held.leased.clone();
            for batches in keeps.get(&grant).into_iter().flat_map(Ranges::iter) {
                free.remove(batches);
            }
            // A stateless client may be another process of the same name. An earlier process may have processed the
            // batches that this one does not know.
            let is_stateless = held.client == ClientKind::Stateless;
            let dataset = Arc::clone(&held.dataset);
            for batches in free.iter() {
                let cause = Cause::new(Reason::LeaseNotResumed, format!("{worker} resumed without {batches}"));
                let repeated = if is_stateless { self.datasets[&dataset].spec.records_in(batches) } else { 0 };
                self.decide(Fact::Returned { grant, batches, repeated, suspects: false, cause }, facts);
            }
        }
        self.check(facts);
        Ok(void)
    }

    /// Removes workers that did not reconnect, and expires leases without progress.
    pub fn tick(&mut self, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        self.remove_absent_workers(facts);
        self.expire_leases(facts);
        self.forget_idle_workers();
        self.check(facts);
    }

    /// Applies a fact from the journal.
    pub fn replay(&mut self, fact: &Fact) {
        self.apply(fact);
    }

    /// Changes whenever a waiting lease request may get another answer. Most acknowledgements do not change it.
    pub fn availability_version(&self) -> u64 {
        self.availability_version
    }

    pub fn datasets(&self) -> impl Iterator<Item = &DatasetSpec> {
        self.datasets.values().map(|dataset| &dataset.spec)
    }

    pub fn dataset(&self, name: &str) -> Option<&DatasetSpec> {
        self.datasets.get(name).map(|dataset| &dataset.spec)
    }

    /// The record counts of a dataset.
    pub fn totals(&self, name: &str) -> Option<Totals> {
        let dataset = self.datasets.get(name)?;
        let spec = &dataset.spec;
        let records = |ranges: &Ranges| ranges.iter().map(|batches| spec.records_in(batches)).sum::<u64>();
        let mut totals = Totals {
            epochs_begun: dataset.begun,
            epochs_finished: dataset.begun - dataset.epochs.len() as u32,
            expected: u64::from(dataset.begun) * spec.records,
            accounted: dataset.accounted,
            quarantined: dataset.quarantined,
            repeated_at_most: dataset.repeated,
            rewound: dataset.rewound,
            reopened_at_most: dataset.reopened,
            ..Totals::default()
        };
        for epoch in dataset.epochs.values() {
            totals.accounted += epoch.accounted;
            totals.quarantined += records(&epoch.quarantined);
            let fresh = Batches::new(epoch.fresh, spec.batches() - epoch.fresh);
            totals.outstanding += spec.records_in(fresh) + records(&epoch.returned) + records(&epoch.suspects);
        }
        for grant in self.grants.values().filter(|grant| *grant.dataset == *name) {
            let held = records(&grant.leased) + records(&grant.unleased);
            totals.outstanding += held;
            *(if grant.in_doubt { &mut totals.in_doubt } else { &mut totals.granted }) += held;
        }
        Some(totals)
    }

    /// The quarantined batches of a dataset: epoch, batch, and how often the program failed on it.
    pub fn quarantined(&self, name: &str) -> Vec<(u32, u64, u32)> {
        let blame = self.datasets.get(name).into_iter().flat_map(|dataset| &dataset.blame);
        blame
            .flat_map(|(epoch, blame)| {
                let batches = blame.quarantined.iter().flat_map(|batches| batches.first..batches.end());
                batches.map(|batch| (*epoch, batch, blame.failures.get(&batch).copied().unwrap_or(0)))
            })
            .collect()
    }

    pub fn is_finished(&self, name: &str) -> bool {
        self.datasets
            .get(name)
            .is_some_and(|dataset| dataset.epochs.is_empty() && !dataset.spec.has_epoch(dataset.begun))
    }

    /// Whether this incarnation is known and has not ended.
    pub fn has_worker(&self, worker: &WorkerId) -> bool {
        self.workers.get(&worker.name).is_some_and(|known| known.incarnation == worker.incarnation)
    }

    /// The dataset of a lease, while any of its batches is outstanding.
    pub fn dataset_of(&self, grant: GrantId) -> Option<&str> {
        self.grants.get(&grant).map(|held| &*held.dataset)
    }

    /// Workers that hold grants, or held some recently.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.workers.iter().map(|(name, worker)| WorkerId::new(Arc::clone(name), worker.incarnation))
    }

    /// Workers that must resume, because the master was restarted.
    pub fn in_doubt(&self) -> BTreeSet<WorkerId> {
        self.grants.values().filter(|held| held.in_doubt).map(|held| held.worker.clone()).collect()
    }

    /// Admits a worker. A later incarnation ends the earlier ones; an earlier incarnation and one that has ended are
    /// refused.
    fn admit(&mut self, worker: &WorkerId, facts: &mut Vec<Fact>) -> Result<(), Cause> {
        self.refuse_earlier_incarnation(worker)?;
        match self.workers.get(&worker.name).map(|known| known.incarnation) {
            Some(incarnation) if incarnation == worker.incarnation => {}
            Some(incarnation) => {
                let earlier = WorkerId::new(Arc::clone(&worker.name), incarnation);
                let detail = format!("{} runs as a later incarnation", worker.name);
                self.return_all_grants(&earlier, WorkerEnd::Lost, &Cause::new(Reason::WorkerReplaced, detail), facts);
                self.workers.remove(&worker.name);
                self.insert_worker(worker);
            }
            None if self.ended.contains(worker) => {
                return Err(Cause::new(Reason::WorkerEnded, format!("{worker} has ended, as its launcher reported")));
            }
            None => self.insert_worker(worker),
        }
        if let Some(known) = self.workers.get_mut(&worker.name) {
            known.heard_at = self.clock.now();
        }
        Ok(())
    }

    fn insert_worker(&mut self, worker: &WorkerId) {
        let mut known = Worker::new(worker.incarnation);
        known.of_node = worker.node().is_some_and(|node| self.nodes.contains(node));
        known.pace.progress_at = self.clock.now();
        self.workers.insert(Arc::clone(&worker.name), known);
    }

    fn refuse_earlier_incarnation(&self, worker: &WorkerId) -> Result<(), Cause> {
        let later = self
            .workers
            .get(&worker.name)
            .map(|known| known.incarnation)
            .filter(|incarnation| *incarnation > worker.incarnation);
        later.map_or(Ok(()), |incarnation| {
            let detail = format!("{} runs as a later incarnation ({incarnation})", worker.name);
            Err(Cause::new(Reason::WorkerReplaced, detail))
        })
    }

    fn has_completed(&self, worker: &WorkerId, grant: GrantId) -> bool {
        let known = self.workers.get(&worker.name).filter(|known| known.incarnation == worker.incarnation);
        known.is_some_and(|known| known.done.contains(&grant))
    }

    fn grant_held_by(&self, worker: &WorkerId, grant: GrantId) -> Result<&Grant, Cause> {
        self.grants.get(&grant).filter(|held| held.worker == *worker).ok_or_else(|| {
            let detail =
                format!("{worker} does not hold lease {grant}: it expired, was released, or the ledger was rewound");
            Cause::new(Reason::LeaseVoid, detail)
        })
    }

    fn worker_mut(&mut self, worker: &WorkerId) -> Option<&mut Worker> {
        self.workers.get_mut(&worker.name).filter(|known| known.incarnation == worker.incarnation)
    }

    fn grants_of(&self, worker: &WorkerId) -> impl Iterator<Item = GrantId> + '_ {
        let known = self.workers.get(&worker.name).filter(|known| known.incarnation == worker.incarnation);
        known.into_iter().flat_map(|known| known.grants.iter().copied())
    }

    fn holds_leases(&self, worker: &WorkerId) -> bool {
        self.grants_of(worker).any(|grant| !self.grants[&grant].leased.is_empty())
    }

    fn check(&self, facts: &[Fact]) {
        debug_assert_eq!(invariants::broken(self), None, "after {facts:?}");
    }
}
