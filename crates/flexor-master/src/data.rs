//! The data of the job: the ledger of its batches with the journal behind it, for every service that leases them.
//!
//! A worker that replays is answered when what it must not be told twice is durable: the grant behind a lease. One that
//! forgets, as `curl` does, is answered when everything it said is. What is decided is decided by the ledger; here is
//! only who waits for what.

mod left_out;
mod limits;
#[cfg(test)]
mod tests;
mod token;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::shards::{
    Asked, Batches, DatasetSpec, Ending, Fact, GrantId, Lease, Leased, Nodes, Order, Position, Settings, Shards,
    Totals, WorkerId,
};
use flexor_model::{Reason, Round};
use serde::Serialize;
use tokio::sync::watch;

pub use self::left_out::{Done, LeftOut};
use crate::clock::Clock;
use crate::journal::{Journal, JournalError, Lsn};
use crate::records;

/// How many batches one lease may have.
const MAX_LEASE: u64 = 1024;
/// How many records one answer may name one by one.
const MAX_PICKED: u64 = 1 << 18;

/// Shared by everything that serves the data.
#[derive(Clone)]
pub struct Data(Arc<Inner>);

struct Inner {
    ledger: Mutex<Ledger>,
    /// Moves on whenever a worker that waits may get something.
    changes: watch::Sender<u64>,
    journal: Arc<Journal>,
    clock: Clock,
    refused: watch::Sender<Option<JournalError>>,
}

/// What the journal keeps of the data.
#[derive(Debug, Default)]
pub struct Accounts {
    /// The ledger.
    pub shards: Shards,
    /// What was left out of batches that are accounted for.
    pub left_out: LeftOut,
}

struct Ledger {
    accounts: Accounts,
    /// How many sessions each worker has: two for a moment, when one breaks and the next has come.
    sessions: HashMap<WorkerId, u32>,
}

/// What there is to tell about a dataset.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DatasetStatus {
    /// What it is.
    #[serde(flatten)]
    pub spec: DatasetSpec,
    /// What its records have come to.
    pub totals: Totals,
    /// How many of the records that are accounted for were left out of their batches: they are damaged, or mean nothing.
    pub left_out: u64,
    /// The batches that were taken out, because the program fails of them.
    pub quarantine: Vec<QuarantinedBatch>,
    /// Nothing is left to do.
    pub finished: bool,
}

/// A batch that was taken out.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuarantinedBatch {
    /// Of which epoch.
    pub epoch: u32,
    /// Which.
    pub batch: u64,
    /// How often the program failed of it alone.
    pub failures: u32,
    /// Which records it has.
    #[serde(flatten)]
    pub records: RecordsOfBatch,
}

/// The records of a batch, as they are shown and sent.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum RecordsOfBatch {
    /// They stand together.
    Run {
        /// The first.
        first: u64,
        /// How many.
        count: u64,
    },
    /// One by one.
    Picked {
        /// Each.
        records: Vec<u64>,
    },
}

/// What was decided, and how far the journal is with it.
struct Decided<T> {
    answer: T,
    lsn: Lsn,
    /// The answer must wait until the journal is there.
    must_be_durable: bool,
}

impl<T> Decided<T> {
    /// The same, to be answered only when it is durable.
    fn durably(self) -> Self {
        Self { must_be_durable: true, ..self }
    }
}

impl Data {
    pub(crate) fn new(
        Accounts { shards, left_out }: Accounts,
        journal: Arc<Journal>,
        clock: Clock,
        refused: watch::Sender<Option<JournalError>>,
    ) -> Self {
        let accounts = Accounts { shards: shards.resume(Settings::default(), clock.now()), left_out };
        let ledger = Ledger { accounts, sessions: HashMap::new() };
        let ledger = Mutex::new(ledger);
        Self(Arc::new(Inner { ledger, changes: watch::Sender::new(0), journal, clock, refused }))
    }

    /// The job has a dataset.
    pub async fn register(&self, spec: DatasetSpec) -> Result<(), Cause> {
        limits::check(&spec)?;
        let decided = self.decide(|ledger, _, facts| ledger.accounts.shards.register(spec, facts))?;
        self.settle(decided).await?
    }

    /// Leases batches to a worker, waiting for some if there are none at present.
    pub async fn lease(&self, worker: &WorkerId, asked: &Asked, wait: Duration) -> Result<Leased, Cause> {
        let deadline = tokio::time::sleep(wait);
        tokio::pin!(deadline);
        let mut changes = self.0.changes.subscribe();
        let asked = self.bounded(asked);
        let mut has_waited = false;
        loop {
            changes.borrow_and_update();
            let decided = self.decide(|ledger, now, facts| {
                if has_waited && !ledger.accounts.shards.knows(worker) {
                    // Whoever waits in its place, a child of it perhaps, does not work.
                    return Err(Cause::new(Reason::WorkerEnded, format!("{worker} has ended while it waited")));
                }
                ledger.accounts.shards.lease(worker, &asked, now, facts)
            })?;
            let leased = self.settle(decided).await??;
            has_waited = true;
            if wait.is_zero() || !matches!(leased, Leased::Wait(_)) {
                return Ok(leased);
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = &mut deadline => return Ok(leased),
            }
        }
    }

    /// Whether a lease is of this dataset, or of none that is known any more.
    pub fn is_of(&self, grant: GrantId, dataset: &str) -> Result<(), Cause> {
        let ledger = self.lock();
        if ledger.accounts.shards.dataset(dataset).is_none() {
            return Err(Cause::new(Reason::UnknownDataset, format!("there is no dataset {dataset}")));
        }
        match ledger.accounts.shards.dataset_of(grant) {
            Some(other) if other != dataset => {
                Err(Cause::new(Reason::LeaseVoid, format!("lease {grant} is of the dataset {other}, not {dataset}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Batches are done. How many records that accounts for, and what must be durable for that to be safe.
    pub async fn acknowledge(
        &self,
        worker: &WorkerId,
        done: impl Into<Done>,
        durably: bool,
    ) -> Result<(u64, Lsn), Cause> {
        let done: Done = done.into();
        let decided = self.decide(|Ledger { accounts, .. }, now, facts| {
            accounts.counting(&[done], facts, |shards, facts| {
                shards.acknowledge(worker, done.grant, done.batches, now, facts)
            })
        })?;
        let decided = if durably { decided.durably() } else { decided };
        let lsn = decided.lsn;
        Ok((self.settle(decided).await??, lsn))
    }

    /// Batches of a lease are not wanted.
    pub async fn give_back(
        &self,
        worker: &WorkerId,
        (grant, batches): (GrantId, Batches),
        durably: bool,
    ) -> Result<(), Cause> {
        let decided =
            self.decide(|ledger, now, facts| ledger.accounts.shards.give_back(worker, grant, batches, now, facts))?;
        self.settle(if durably { decided.durably() } else { decided }).await?
    }

    /// A worker says what it holds and what it has acknowledged; gives what it does not hold, and what must be durable
    /// for what it said to be safe.
    pub async fn come_back(
        &self,
        worker: &WorkerId,
        holds: &[(GrantId, Batches)],
        acknowledged: &[Done],
    ) -> Result<(Vec<(GrantId, Batches)>, Lsn), Cause> {
        let batches: Vec<(GrantId, Batches)> = acknowledged.iter().map(|done| (done.grant, done.batches)).collect();
        let decided = self.decide(|Ledger { accounts, .. }, now, facts| {
            accounts
                .counting(acknowledged, facts, |shards, facts| shards.come_back(worker, holds, &batches, now, facts))
        })?;
        let lsn = decided.lsn;
        Ok((self.settle(decided).await??, lsn))
    }

    /// Where the data stands when there is some and all of it is accounted for. It stands there for good, unless it goes
    /// back.
    pub(crate) fn end(&self) -> Option<String> {
        let Ledger { accounts, .. } = &*self.lock();
        let mut datasets = accounts.shards.datasets().peekable();
        let is_finished = datasets.peek().is_some() && datasets.all(|spec| accounts.shards.is_finished(&spec.name));
        is_finished.then(|| accounts.position())
    }

    /// Where the data stands, if there is any: who learns from data that nobody has told of may learn at any moment.
    pub(crate) fn learnt(&self) -> Option<String> {
        let Ledger { accounts, .. } = &*self.lock();
        accounts.shards.datasets().next().map(|_| accounts.position())
    }

    /// Where the data stands, as a program keeps it in its checkpoint.
    pub fn position(&self) -> String {
        self.lock().accounts.position()
    }

    /// The same, and how many steps are taken there, where training goes in steps.
    pub(crate) fn position_and_steps(&self) -> (String, Option<u64>) {
        let ledger = self.lock();
        let steps = ledger.accounts.shards.stepped().and_then(|spec| ledger.accounts.shards.steps_taken(&spec.name));
        (ledger.accounts.position(), steps)
    }

    /// Goes back to where the data stood. How many records are open again.
    pub async fn restore(&self, token: &str) -> Result<u64, Cause> {
        let (position, left_out) = read_position(token)?;
        let decided = self.decide(|ledger, now, facts| {
            let rewound = ledger.accounts.shards.restore(position, now, facts)?;
            ledger.accounts.left_out = left_out;
            Ok(rewound)
        })?;
        self.settle(decided).await?
    }

    /// Whether text from outside is a position that the data can stand at.
    pub(crate) fn check_position(token: &str) -> Result<(), Cause> {
        read_position(token).map(|_| ())
    }

    /// Goes back to where the data stood, together with something else that is written down in the same record.
    pub(crate) fn wind_back<T>(
        &self,
        ledger: Option<&str>,
        write: impl FnOnce(&[Fact], Option<&LeftOut>) -> T,
    ) -> Result<T, Cause> {
        // A checkpoint that was made of another job's has none.
        let said = ledger.filter(|ledger| !ledger.is_empty());
        let (position, left_out) = said.map(token::decode).transpose()?.unwrap_or_default();
        let mut facts = Vec::new();
        let mut known = self.lock();
        known.accounts.shards.restore(position, self.0.clock.now(), &mut facts)?;
        let is_news = known.accounts.left_out != left_out;
        known.accounts.left_out = left_out;
        let written = write(&facts, is_news.then_some(&known.accounts.left_out));
        drop(known);
        self.0.changes.send_modify(|changes| *changes += 1);
        Ok(written)
    }

    /// Moves on whenever who waits for a lease may get one, and whenever something of a step is done.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The step that a batch of a lease belongs to, where there are steps.
    pub fn step_of(&self, lease: &Lease, batch: u64) -> Option<u64> {
        self.lock().accounts.shards.dataset(&lease.dataset)?.step_of(lease.epoch, batch)
    }

    /// A worker has ended, as whoever started it says.
    pub async fn ended(&self, worker: &WorkerId, ending: Ending) -> Result<(), Cause> {
        let decided = self.decide(|ledger, now, facts| ledger.accounts.shards.ended(worker, ending, now, facts))?;
        self.settle(decided.durably()).await
    }

    /// The program of a worker failed in a round; whose fault that was is known when the nodes have met again.
    pub async fn failed(&self, worker: &WorkerId, round: Round) -> Result<(), Cause> {
        let decided = self.decide(|ledger, now, facts| ledger.accounts.shards.failed(worker, round, now, facts))?;
        self.settle(decided.durably()).await
    }

    /// Takes over how the nodes stand.
    pub(crate) fn follow(&self, nodes: &Nodes) -> Result<(), Cause> {
        self.decide(|ledger, now, facts| ledger.accounts.shards.follow(nodes, now, facts)).map(|_| ())
    }

    /// These pods lease data, and of them these are over.
    pub(crate) fn pods_stand(&self, here: &BTreeSet<&str>, over: &BTreeSet<&str>) -> Result<(), Cause> {
        self.decide(|ledger, now, facts| ledger.accounts.shards.pods_stand(here, over, now, facts)).map(|_| ())
    }

    /// A worker has opened a session.
    pub(crate) fn session_begun(&self, worker: &WorkerId) {
        let mut ledger = self.lock();
        *ledger.sessions.entry(worker.clone()).or_default() += 1;
        ledger.accounts.shards.is_here(worker);
    }

    /// A session of a worker has ended. With the last one it has a while to come back.
    pub(crate) fn session_ended(&self, worker: &WorkerId) {
        let now = self.0.clock.now();
        let mut ledger = self.lock();
        let left = ledger.sessions.get_mut(worker).map_or(0, |sessions| {
            *sessions -= 1;
            *sessions
        });
        if left == 0 {
            ledger.sessions.remove(worker);
            ledger.accounts.shards.is_away(worker, now);
        }
    }

    /// Takes back what makes no progress, and what those hold who did not come back.
    pub(crate) fn keep_house(&self) -> Result<(), Cause> {
        self.decide(|ledger, now, facts| ledger.accounts.shards.tick(now, facts)).map(|_| ())
    }

    /// What there is to tell.
    pub fn status(&self) -> Vec<DatasetStatus> {
        let ledger = self.lock();
        let shards = &ledger.accounts.shards;
        shards
            .datasets()
            .map(|spec| DatasetStatus {
                spec: spec.clone(),
                totals: shards.totals(&spec.name).unwrap_or_default(),
                left_out: ledger.accounts.left_out.of(&spec.name),
                quarantine: shards
                    .quarantined(&spec.name)
                    .into_iter()
                    .map(|(epoch, batch, failures)| {
                        let records = records_of(spec, epoch, batch);
                        QuarantinedBatch { epoch, batch, failures, records }
                    })
                    .collect(),
                finished: shards.is_finished(&spec.name),
            })
            .collect()
    }

    /// How many records of a dataset are accounted for, in all epochs.
    pub fn accounted(&self, dataset: &str) -> u64 {
        self.lock().accounts.shards.totals(dataset).map_or(0, |totals| totals.accounted)
    }

    /// The number by which parameter servers know a dataset.
    pub fn number(&self, dataset: &str) -> u32 {
        self.lock().accounts.shards.dataset(dataset).map_or(0, DatasetSpec::number)
    }

    /// The records of each batch of a lease.
    pub fn records(&self, lease: &Lease) -> Vec<(u64, RecordsOfBatch)> {
        let ledger = self.lock();
        let Some(spec) = ledger.accounts.shards.dataset(&lease.dataset) else { return Vec::new() };
        let batches = lease.batches.first..lease.batches.end();
        batches.map(|batch| (batch, records_of(spec, lease.epoch, batch))).collect()
    }

    /// The last decision that survives the end of the machine.
    pub fn durable_lsn(&self) -> u64 {
        self.0.journal.durable_lsn().0
    }

    /// As much as one answer can name.
    fn bounded(&self, asked: &Asked) -> Asked {
        let ledger = self.lock();
        let spec = ledger.accounts.shards.dataset(&asked.dataset);
        let picked = spec.filter(|spec| matches!(spec.order, Order::ShuffledRecords { .. }));
        let most = picked.map_or(MAX_LEASE, |spec| (MAX_PICKED / spec.batch).max(1));
        Asked { batches: asked.batches.clamp(1, most), ..asked.clone() }
    }

    /// Does something with the ledger while nothing is decided.
    pub(crate) fn with_shards<R>(&self, act: impl FnOnce(&Shards) -> R) -> R {
        act(&self.lock().accounts.shards)
    }

    /// Does something with all that the journal keeps of the data while nothing is decided.
    pub(crate) fn with_accounts<R>(&self, act: impl FnOnce(&Accounts) -> R) -> R {
        act(&self.lock().accounts)
    }

    /// Decides something and writes it into the journal, before anybody else decides.
    fn decide<T>(&self, act: impl FnOnce(&mut Ledger, Duration, &mut Vec<Fact>) -> T) -> Result<Decided<T>, Cause> {
        let inner = &self.0;
        if !inner.journal.has_room() {
            let detail = "nothing can be written down at present; try again when the disk has room";
            return Err(Cause::new(Reason::JournalFull, detail));
        }
        let mut facts = Vec::new();
        let mut ledger = self.lock();
        let stirs = ledger.accounts.shards.stirs();
        let left_out = ledger.accounts.left_out.clone();
        let answer = act(&mut ledger, inner.clock.now(), &mut facts);
        let stirred = ledger.accounts.shards.stirs() != stirs;
        if facts.is_empty() {
            // What is said again may have been written down and not be durable yet.
            return Ok(Decided { answer, lsn: inner.journal.last(), must_be_durable: false });
        }
        let left_out = Some(&ledger.accounts.left_out).filter(|counts| **counts != left_out);
        let appended = inner.journal.append(&records::encode_data(&facts, left_out));
        let lsn = appended.map_err(|error| {
            let detail = error.to_string();
            // The ledger knows what the journal does not: the master ends, and the next one goes on from the journal.
            inner.refused.send_if_modified(|refused| refused.replace(error).is_none());
            Cause::new(Reason::JournalFull, detail)
        })?;
        // Who acknowledges and is not answered durably says it again to the next master; everything else is durable, or at
        // least given to the system, before anybody hears of it.
        let must_be_durable = facts.iter().any(Fact::must_be_durable);
        let said_again = facts.iter().all(|fact| matches!(fact, Fact::Accounted { .. }));
        let kept = must_be_durable || said_again || inner.journal.flush().is_ok();
        drop(ledger);
        if stirred {
            inner.changes.send_modify(|count| *count += 1);
        }
        for fact in &facts {
            tell(fact);
        }
        Ok(Decided { answer, lsn, must_be_durable: must_be_durable || !kept })
    }

    async fn settle<T>(&self, decided: Decided<T>) -> Result<T, Cause> {
        if decided.must_be_durable {
            let durable = self.0.journal.durable(decided.lsn).await;
            durable.map_err(|error| Cause::new(Reason::JournalFull, error.to_string()))?;
        }
        Ok(decided.answer)
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accounts {
    /// Lets the ledger decide about batches that are done, and counts what was left out of those that it accounts for.
    fn counting<T>(
        &mut self,
        done: &[Done],
        facts: &mut Vec<Fact>,
        act: impl FnOnce(&mut Shards, &mut Vec<Fact>) -> T,
    ) -> T {
        let some: Vec<(Arc<str>, &Done)> = done
            .iter()
            .filter(|done| done.left_out > 0)
            // The ledger forgets a lease that is done.
            .filter_map(|done| Some((Arc::from(self.shards.dataset_of(done.grant)?), done)))
            .collect();
        let answer = act(&mut self.shards, facts);
        for (dataset, done) in some {
            self.left_out.count(&dataset, done, facts, &self.shards);
        }
        answer
    }

    /// Where the data stands, as text.
    fn position(&self) -> String {
        token::encode(self.shards.position(), self.left_out.at_position(&self.shards))
    }
}

/// A position that comes from outside.
fn read_position(token: &str) -> Result<(Position, LeftOut), Cause> {
    let (position, left_out) = token::decode(token)?;
    limits::check_position(&position, &left_out)?;
    Ok((position, left_out))
}

/// What is worth a line in the log. Grants and acknowledgements are not: there is no end of them.
fn tell(fact: &Fact) {
    match fact {
        Fact::Registered { spec } => {
            tracing::info!(dataset = %spec.name, records = spec.records, batch = spec.batch, "registered");
        }
        Fact::Returned { grant, batches, repeated, cause, .. } if *repeated > 0 => {
            tracing::info!(%grant, %batches, %cause, "taken back");
        }
        Fact::Quarantined { dataset, epoch, batch, cause } => {
            tracing::error!(%dataset, epoch, batch, %cause, "quarantined");
        }
        Fact::Rewound { position } => tracing::info!(datasets = position.datasets.len(), "wound back"),
        Fact::Begun { .. }
        | Fact::Granted { .. }
        | Fact::Accounted { .. }
        | Fact::Returned { .. }
        | Fact::Failed { .. }
        | Fact::Judged { .. }
        | Fact::Paced { .. }
        | Fact::Charged { .. } => {}
    }
}

fn records_of(spec: &DatasetSpec, epoch: u32, batch: u64) -> RecordsOfBatch {
    match spec.records_of(epoch, batch) {
        flexor_engine::shards::Records::Run { first, count } => RecordsOfBatch::Run { first, count },
        flexor_engine::shards::Records::Picked(records) => RecordsOfBatch::Picked { records },
    }
}
