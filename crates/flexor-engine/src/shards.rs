//! The ledger of the data: which batch of which epoch is whose, which are done, and what is left.
//!
//! Workers lease batches, acknowledge them, give them back or die with them; the ledger answers and decides [`Fact`]s.
//! Whatever happens, every record of an epoch is accounted for, quarantined or outstanding, and nothing is taken out
//! because a machine was lost. State is kept in ranges, so that its size goes with the number of gaps.
//!
//! It is *not* for reading data: a batch is a range of numbers, and [`DatasetSpec::records_of`] says which records these
//! are. Nor does it know when a worker is lost: its owner says so, or a grant makes no progress for too long.

mod applying;
mod dataset;
mod ending;
mod epoch;
mod fact;
mod grant;
pub mod invariants;
mod lease;
mod nodes;
mod order;
mod passes;
mod patience;
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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use flexor_model::{Reason, Round};
use serde::{Deserialize, Serialize};

use crate::absence::Attended;
pub use crate::cause::Cause;
pub use dataset::{DatasetError, DatasetSpec};
pub use ending::Ending;
use epoch::Epoch;
pub use fact::Fact;
use grant::Grant;
pub use grant::{GrantId, Promise};
pub use lease::{Asked, Lease, Leased};
pub use nodes::Nodes;
pub use order::{Order, Records};
use passes::Dataset;
pub use position::{DatasetPosition, EpochPosition, Position};
pub use ranges::{Batches, Ranges};
pub use steps::{StepBatches, Stepping};
pub use totals::Totals;
use worker::Worker;
pub use worker::WorkerId;

/// What can be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How often the program may fail of a batch by itself before the batch is taken out.
    pub quarantine_after: u32,
    /// The shortest time that a worker has for progress, however fast it was.
    pub least_patience: Duration,
    /// What a worker has while nobody knows how long a batch takes.
    pub first_patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        // With the default of three restarts a job outlives one bad batch among many: it fails once with others, and
        // twice alone.
        let (least_patience, first_patience) = (Duration::from_secs(10), Duration::from_secs(600));
        Self { quarantine_after: 2, least_patience, first_patience }
    }
}

/// The ledger.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Shards {
    #[serde(skip)]
    settings: Settings,
    datasets: BTreeMap<Arc<str>, Dataset>,
    grants: BTreeMap<GrantId, Grant>,
    workers: BTreeMap<Arc<str>, Worker>,
    /// Workers whose program failed, and in which round, in the order in which that was heard. Whose fault it was is
    /// known when the nodes have met again; until then they keep what they have.
    #[serde(default)]
    failed: Vec<(WorkerId, Round)>,
    last_grant: u64,
    /// Grants of which something is not leased.
    #[serde(skip)]
    stealable: BTreeSet<GrantId>,
    /// Lives that have ended for good; the latest of them.
    #[serde(skip)]
    ended: VecDeque<WorkerId>,
    /// The nodes that were alive when this was last heard.
    #[serde(skip)]
    nodes: BTreeSet<Arc<str>>,
    #[serde(skip)]
    clock: Attended,
    /// No patience ends before this.
    #[serde(skip)]
    check_at: Duration,
    /// How often something has happened that those who wait for a lease may wait for.
    #[serde(skip)]
    stirs: u64,
}

impl Shards {
    /// A ledger of nothing.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Puts a ledger that was read back, or whose facts were replayed, to work: what workers hold that can say it again
    /// is in doubt until they do, and the patience with all others begins anew.
    pub fn resume(mut self, settings: Settings, now: Duration) -> Self {
        self.settings = settings;
        self.clock = Attended::since(now);
        for grant in self.grants.values_mut() {
            let unleased = std::mem::take(&mut grant.unleased);
            unleased.iter().for_each(|batches| grant.leased.insert(batches));
            grant.in_doubt = grant.promise == Promise::Replays;
            grant.progress_at = now;
        }
        self.stealable.clear();
        let in_doubt = self.in_doubt();
        for (name, worker) in &mut self.workers {
            worker.pace.progress_at = now;
            worker.of_node = true;
            let id = WorkerId::new(Arc::clone(name), worker.incarnation);
            worker.away_until = in_doubt.contains(&id).then_some(now + patience::AFTER_RESTART);
        }
        self.check_at = now;
        self
    }

    /// The job has a dataset. The same one may be registered by every worker.
    pub fn register(&mut self, spec: DatasetSpec, facts: &mut Vec<Fact>) -> Result<(), Cause> {
        match self.datasets.get(&spec.name) {
            Some(known) if known.spec == spec => Ok(()),
            Some(known) => {
                let detail = format!(
                    "{} is registered with {}, not with {}; register what has changed under another name",
                    spec.name,
                    known.spec.described(),
                    spec.described(),
                );
                Err(Cause::new(Reason::DatasetChanged, detail))
            }
            None => {
                self.decide(Fact::Registered { spec }, facts);
                Ok(())
            }
        }
    }

    /// Batches of a lease are done. Says how many records that accounts for: none for those that were acknowledged
    /// before.
    pub fn acknowledge(
        &mut self,
        worker: &WorkerId,
        grant: GrantId,
        batches: Batches,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) -> Result<u64, Cause> {
        self.clock.advance(now);
        self.refuse_earlier_life(worker)?;
        if self.has_done(worker, grant) {
            return Ok(0);
        }
        let held = self.held(worker, grant)?;
        let open = held.leased.within(batches);
        let known = open.count() + held.accounted.within(batches).count();
        if batches.count == 0 || known != batches.count {
            let detail = format!("{batches} of lease {grant} were not leased to {worker}, or were taken back");
            return Err(Cause::new(Reason::LeaseVoid, detail));
        }
        let dataset = Arc::clone(&held.dataset);
        let spec = &self.datasets[&dataset].spec;
        let records = open.iter().map(|batches| spec.records_in(batches)).sum();
        let count = open.count();
        for batches in open.iter() {
            self.decide(Fact::Accounted { grant, batches }, facts);
        }
        self.make_progress(worker, grant, &dataset, count, facts);
        self.check(facts);
        Ok(records)
    }

    /// A worker does not want what is left of a lease.
    pub fn give_back(
        &mut self,
        worker: &WorkerId,
        grant: GrantId,
        batches: Batches,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) -> Result<(), Cause> {
        self.clock.advance(now);
        self.refuse_earlier_life(worker)?;
        let open = self.held(worker, grant)?.leased.within(batches);
        for batches in open.iter() {
            let cause = Cause::new(Reason::GivenBack, format!("{worker} gave {batches} back"));
            // Who gives something back says that it was not used.
            self.decide(Fact::Returned { grant, batches, repeated: 0, suspects: false, cause }, facts);
        }
        self.check(facts);
        Ok(())
    }

    /// A worker has come back, to this master or to the one after it: these batches it holds, and these it has
    /// acknowledged without hearing that they are safe. Whatever else it was granted is free again. Gives what it says
    /// to hold and does not: it must not go through those.
    pub fn come_back(
        &mut self,
        worker: &WorkerId,
        holds: &[(GrantId, Batches)],
        acknowledged: &[(GrantId, Batches)],
        now: Duration,
        facts: &mut Vec<Fact>,
    ) -> Result<Vec<(GrantId, Batches)>, Cause> {
        self.clock.advance(now);
        self.admit(worker, facts)?;
        self.is_here(worker);
        for (grant, batches) in acknowledged {
            let Ok(held) = self.held(worker, *grant) else { continue };
            for batches in held.leased.within(*batches).iter() {
                self.decide(Fact::Accounted { grant: *grant, batches }, facts);
            }
        }
        let mut void = Vec::new();
        let mut keeps: BTreeMap<GrantId, Ranges> = BTreeMap::new();
        for (grant, batches) in holds {
            match self.held(worker, *grant) {
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
            // One that says nothing again may be another process of the same name: what it does not know of, the one
            // before it may have gone through.
            let forgets = held.promise == Promise::Forgets;
            let dataset = Arc::clone(&held.dataset);
            for batches in free.iter() {
                let cause = Cause::new(Reason::NeverLeased, format!("{worker} came back without {batches}"));
                let repeated = if forgets { self.datasets[&dataset].spec.records_in(batches) } else { 0 };
                self.decide(Fact::Returned { grant, batches, repeated, suspects: false, cause }, facts);
            }
        }
        self.check(facts);
        Ok(void)
    }

    /// Time has passed: what makes no progress is taken back.
    pub fn tick(&mut self, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        self.give_up_the_absent(facts);
        self.take_back_the_stuck(facts);
        self.forget_the_idle();
        self.check(facts);
    }

    /// Takes over a fact that was decided before, from a journal.
    pub fn replay(&mut self, fact: &Fact) {
        self.apply(fact);
    }

    /// Changes whenever who waits for a lease may get another answer. Most acknowledgements are not such a moment.
    pub fn stirs(&self) -> u64 {
        self.stirs
    }

    /// The datasets, by name.
    pub fn datasets(&self) -> impl Iterator<Item = &DatasetSpec> {
        self.datasets.values().map(|dataset| &dataset.spec)
    }

    /// A dataset.
    pub fn dataset(&self, name: &str) -> Option<&DatasetSpec> {
        self.datasets.get(name).map(|dataset| &dataset.spec)
    }

    /// What a dataset's records have come to.
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

    /// The batches of a dataset that were taken out: epoch, batch, and how often the program failed of it.
    pub fn quarantined(&self, name: &str) -> Vec<(u32, u64, u32)> {
        let blame = self.datasets.get(name).into_iter().flat_map(|dataset| &dataset.blame);
        blame
            .flat_map(|(epoch, blame)| {
                let batches = blame.quarantined.iter().flat_map(|batches| batches.first..batches.end());
                batches.map(|batch| (*epoch, batch, blame.failures.get(&batch).copied().unwrap_or(0)))
            })
            .collect()
    }

    /// Whether every epoch of a dataset is finished.
    pub fn is_finished(&self, name: &str) -> bool {
        self.datasets
            .get(name)
            .is_some_and(|dataset| dataset.epochs.is_empty() && !dataset.spec.has_epoch(dataset.begun))
    }

    /// Whether a worker has come, and has not ended since.
    pub fn knows(&self, worker: &WorkerId) -> bool {
        self.workers.get(&worker.name).is_some_and(|known| known.incarnation == worker.incarnation)
    }

    /// Of which dataset a lease is, while anything of it is outstanding.
    pub fn dataset_of(&self, grant: GrantId) -> Option<&str> {
        self.grants.get(&grant).map(|held| &*held.dataset)
    }

    /// Those who hold something, or did not long ago.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.workers.iter().map(|(name, worker)| WorkerId::new(Arc::clone(name), worker.incarnation))
    }

    /// Those who have to say what they hold, because the master was started again.
    pub fn in_doubt(&self) -> BTreeSet<WorkerId> {
        self.grants.values().filter(|held| held.in_doubt).map(|held| held.worker.clone()).collect()
    }

    /// A later life of a worker ends the earlier ones; an earlier one is refused, and one that has ended.
    fn admit(&mut self, worker: &WorkerId, facts: &mut Vec<Fact>) -> Result<(), Cause> {
        self.refuse_earlier_life(worker)?;
        match self.workers.get(&worker.name).map(|known| known.incarnation) {
            Some(life) if life == worker.incarnation => {}
            Some(life) => {
                let earlier = WorkerId::new(Arc::clone(&worker.name), life);
                let detail = format!("{} came again in a later life", worker.name);
                self.take_everything(&earlier, Ending::Lost, &Cause::new(Reason::WorkerReplaced, detail), facts);
                self.workers.remove(&worker.name);
                self.greet(worker);
            }
            None if self.ended.contains(worker) => {
                return Err(Cause::new(Reason::WorkerEnded, format!("{worker} has ended, as its launcher says")));
            }
            None => self.greet(worker),
        }
        if let Some(known) = self.workers.get_mut(&worker.name) {
            known.heard_at = self.clock.now();
        }
        Ok(())
    }

    fn greet(&mut self, worker: &WorkerId) {
        let mut known = Worker::new(worker.incarnation);
        known.of_node = worker.node().is_some_and(|node| self.nodes.contains(node));
        known.pace.progress_at = self.clock.now();
        self.workers.insert(Arc::clone(&worker.name), known);
    }

    fn refuse_earlier_life(&self, worker: &WorkerId) -> Result<(), Cause> {
        let later =
            self.workers.get(&worker.name).map(|known| known.incarnation).filter(|life| *life > worker.incarnation);
        later.map_or(Ok(()), |life| {
            let detail = format!("{} has begun a later life ({life})", worker.name);
            Err(Cause::new(Reason::WorkerReplaced, detail))
        })
    }

    fn has_done(&self, worker: &WorkerId, grant: GrantId) -> bool {
        let known = self.workers.get(&worker.name).filter(|known| known.incarnation == worker.incarnation);
        known.is_some_and(|known| known.done.contains(&grant))
    }

    fn held(&self, worker: &WorkerId, grant: GrantId) -> Result<&Grant, Cause> {
        self.grants.get(&grant).filter(|held| held.worker == *worker).ok_or_else(|| {
            let detail = format!("lease {grant} is not {worker}'s: it was taken back, given back, or wound back");
            Cause::new(Reason::LeaseVoid, detail)
        })
    }

    fn life_of(&mut self, worker: &WorkerId) -> Option<&mut Worker> {
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
