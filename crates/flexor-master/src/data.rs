//! The data service of the job: the ledger with its journal, for every API that leases batches.
//!
//! A resuming worker is answered when the grant behind its lease is durable. A stateless client, such as `curl`, is
//! answered when everything it requested is durable. The ledger decides; this module journals the facts and makes
//! callers wait.

mod limits;
mod position_token;
mod skipped_records;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::ledger::{
    Batches, DatasetSpec, Fact, GrantId, Lease, LeaseOutcome, LeaseRequest, Ledger, ObservedNodes, Order, Position,
    Settings, Totals, WorkerEnd, WorkerId,
};
use flexor_model::{Reason, Round};
use serde::Serialize;
use tokio::sync::watch;

pub use self::skipped_records::{AcknowledgedBatches, SkippedRecords};
use crate::clock::Clock;
use crate::journal::{Journal, JournalError, Lsn};
use crate::records;

/// The most batches of one lease.
const MAX_LEASE: u64 = 1024;
/// The most records that one answer lists one by one.
const MAX_PICKED: u64 = 1 << 18;

/// The data service. Clones share it.
#[derive(Clone)]
pub struct Data(Arc<Inner>);

struct Inner {
    state: Mutex<DataState>,
    /// Changes whenever a waiting lease request may succeed.
    changes: watch::Sender<u64>,
    journal: Arc<Journal>,
    clock: Clock,
    refused: watch::Sender<Option<JournalError>>,
}

/// The journaled part of the data.
#[derive(Debug, Default)]
pub struct JournaledData {
    pub ledger: Ledger,
    /// Records that were skipped in acknowledged batches.
    pub skipped_records: SkippedRecords,
}

struct DataState {
    journaled: JournaledData,
    /// Open sessions by worker. A worker has two for a moment, when it reconnects before the broken one ends.
    sessions: HashMap<WorkerId, u32>,
}

/// The status of a dataset, as the APIs show it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DatasetStatus {
    #[serde(flatten)]
    pub spec: DatasetSpec,
    pub totals: Totals,
    /// Accounted records that were skipped: they are damaged or cannot be parsed.
    pub skipped_records: u64,
    /// Batches that the program fails on.
    pub quarantine: Vec<QuarantinedBatch>,
    pub finished: bool,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuarantinedBatch {
    pub epoch: u32,
    pub batch: u64,
    /// How often the program failed on it while the worker held no other batch.
    pub failures: u32,
    #[serde(flatten)]
    pub records: RecordsOfBatch,
}

/// The records of a batch, for APIs.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum RecordsOfBatch {
    /// Adjacent records.
    Run { first: u64, count: u64 },
    /// Single records.
    Picked { records: Vec<u64> },
}

/// A decision and the journal position of its facts.
struct Decided<T> {
    answer: T,
    lsn: Lsn,
    /// The answer waits until `lsn` is durable.
    must_be_durable: bool,
}

impl<T> Decided<T> {
    fn durably(self) -> Self {
        Self { must_be_durable: true, ..self }
    }
}

impl Data {
    pub(crate) fn new(
        JournaledData { ledger, skipped_records }: JournaledData,
        journal: Arc<Journal>,
        clock: Clock,
        refused: watch::Sender<Option<JournalError>>,
    ) -> Self {
        let journaled = JournaledData { ledger: ledger.resume(Settings::default(), clock.now()), skipped_records };
        let state = Mutex::new(DataState { journaled, sessions: HashMap::new() });
        Self(Arc::new(Inner { state, changes: watch::Sender::new(0), journal, clock, refused }))
    }

    pub async fn register(&self, spec: DatasetSpec) -> Result<(), Cause> {
        limits::check(&spec)?;
        let decided = self.decide(|state, _, facts| state.journaled.ledger.register(spec, facts))?;
        self.settle(decided).await?
    }

    /// Leases batches to a worker, and waits up to `wait` for available ones.
    pub async fn lease(
        &self,
        worker: &WorkerId,
        request: &LeaseRequest,
        wait: Duration,
    ) -> Result<LeaseOutcome, Cause> {
        let deadline = tokio::time::sleep(wait);
        tokio::pin!(deadline);
        let mut changes = self.0.changes.subscribe();
        let request = self.bounded(request);
        let mut has_waited = false;
        loop {
            changes.borrow_and_update();
            let decided = self.decide(|state, now, facts| {
                if has_waited && !state.journaled.ledger.has_worker(worker) {
                    // A request of an ended worker, perhaps of a child process, gets nothing.
                    return Err(Cause::new(Reason::WorkerEnded, format!("{worker} ended while it waited for a lease")));
                }
                state.journaled.ledger.lease(worker, &request, now, facts)
            })?;
            let leased = self.settle(decided).await??;
            has_waited = true;
            if wait.is_zero() || !matches!(leased, LeaseOutcome::Wait(_)) {
                return Ok(leased);
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = &mut deadline => return Ok(leased),
            }
        }
    }

    /// Refuses a lease of another dataset. A lease that is not known any more passes.
    pub fn check_dataset_of(&self, grant: GrantId, dataset: &str) -> Result<(), Cause> {
        let state = self.lock();
        if state.journaled.ledger.dataset(dataset).is_none() {
            return Err(Cause::new(Reason::UnknownDataset, format!("dataset {dataset} is not registered")));
        }
        match state.journaled.ledger.dataset_of(grant) {
            Some(other) if other != dataset => {
                Err(Cause::new(Reason::LeaseVoid, format!("lease {grant} belongs to dataset {other}, not {dataset}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Acknowledges batches. Returns how many records this accounts for, and the LSN that makes it durable.
    pub async fn acknowledge(
        &self,
        worker: &WorkerId,
        done: impl Into<AcknowledgedBatches>,
        durably: bool,
    ) -> Result<(u64, Lsn), Cause> {
        let done: AcknowledgedBatches = done.into();
        let decided = self.decide(|DataState { journaled, .. }, now, facts| {
            journaled.count_skipped(&[done], facts, |ledger, facts| {
                ledger.acknowledge(worker, done.grant, done.batches, now, facts)
            })
        })?;
        let decided = if durably { decided.durably() } else { decided };
        let lsn = decided.lsn;
        Ok((self.settle(decided).await??, lsn))
    }

    /// Releases batches that the worker did not use.
    pub async fn release(
        &self,
        worker: &WorkerId,
        (grant, batches): (GrantId, Batches),
        durably: bool,
    ) -> Result<(), Cause> {
        let decided =
            self.decide(|state, now, facts| state.journaled.ledger.release(worker, grant, batches, now, facts))?;
        self.settle(if durably { decided.durably() } else { decided }).await?
    }

    /// Resumes a worker that states what it holds and what it acknowledged. Returns the batches that it does not hold,
    /// and the LSN that makes its statements durable.
    pub async fn resume(
        &self,
        worker: &WorkerId,
        holds: &[(GrantId, Batches)],
        acknowledged: &[AcknowledgedBatches],
    ) -> Result<(Vec<(GrantId, Batches)>, Lsn), Cause> {
        let batches: Vec<(GrantId, Batches)> = acknowledged.iter().map(|done| (done.grant, done.batches)).collect();
        let decided = self.decide(|DataState { journaled, .. }, now, facts| {
            journaled.count_skipped(acknowledged, facts, |ledger, facts| {
                ledger.resume_worker(worker, holds, &batches, now, facts)
            })
        })?;
        let lsn = decided.lsn;
        Ok((self.settle(decided).await??, lsn))
    }

    /// The position when every dataset is finished. It stays the same unless the data is rewound.
    pub(crate) fn final_position(&self) -> Option<String> {
        let DataState { journaled, .. } = &*self.lock();
        let mut datasets = journaled.ledger.datasets().peekable();
        let is_finished = datasets.peek().is_some() && datasets.all(|spec| journaled.ledger.is_finished(&spec.name));
        is_finished.then(|| journaled.position())
    }

    /// The position, if a dataset is registered. Training on unregistered data has none.
    pub(crate) fn position_if_any(&self) -> Option<String> {
        let DataState { journaled, .. } = &*self.lock();
        journaled.ledger.datasets().next().map(|_| journaled.position())
    }

    /// The position, as a program stores it in its checkpoint.
    pub fn position(&self) -> String {
        self.lock().journaled.position()
    }

    /// The position and, in synchronous training, the completed steps at it.
    pub(crate) fn position_and_steps(&self) -> (String, Option<u64>) {
        let state = self.lock();
        let steps = state
            .journaled
            .ledger
            .synchronous_dataset()
            .and_then(|spec| state.journaled.ledger.steps_taken(&spec.name));
        (state.journaled.position(), steps)
    }

    /// Rewinds to a position. Returns how many records were reopened.
    pub async fn restore(&self, token: &str) -> Result<u64, Cause> {
        let (position, skipped_records) = read_position(token)?;
        let decided = self.decide(|state, now, facts| {
            let rewound = state.journaled.ledger.restore(position, now, facts)?;
            state.journaled.skipped_records = skipped_records;
            Ok(rewound)
        })?;
        self.settle(decided).await?
    }

    /// Refuses text that is no valid position.
    pub(crate) fn check_position(token: &str) -> Result<(), Cause> {
        read_position(token).map(|_| ())
    }

    /// Rewinds the data. `write` journals the facts in one record with facts of its own.
    pub(crate) fn rewind_with<T>(
        &self,
        token: Option<&str>,
        write: impl FnOnce(&[Fact], Option<&SkippedRecords>) -> T,
    ) -> Result<T, Cause> {
        // A checkpoint that was converted from another job has no position.
        let token = token.filter(|token| !token.is_empty());
        let (position, skipped_records) = token.map(position_token::decode).transpose()?.unwrap_or_default();
        let mut facts = Vec::new();
        let mut state = self.lock();
        state.journaled.ledger.restore(position, self.0.clock.now(), &mut facts)?;
        let has_changed = state.journaled.skipped_records != skipped_records;
        state.journaled.skipped_records = skipped_records;
        let written = write(&facts, has_changed.then_some(&state.journaled.skipped_records));
        drop(state);
        self.0.changes.send_modify(|changes| *changes += 1);
        Ok(written)
    }

    /// Changes whenever a waiting lease request may succeed, and whenever a batch of a step is acknowledged.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The step of a leased batch, in synchronous training.
    pub fn step_of(&self, lease: &Lease, batch: u64) -> Option<u64> {
        self.lock().journaled.ledger.dataset(&lease.dataset)?.step_of(lease.epoch, batch)
    }

    /// A worker has ended, as its launcher reports.
    pub async fn worker_ended(&self, worker: &WorkerId, ending: WorkerEnd) -> Result<(), Cause> {
        let decided =
            self.decide(|state, now, facts| state.journaled.ledger.worker_ended(worker, ending, now, facts))?;
        self.settle(decided.durably()).await
    }

    /// The program of a worker failed in a round. The next round shows which worker caused it.
    pub async fn worker_failed(&self, worker: &WorkerId, round: Round) -> Result<(), Cause> {
        let decided =
            self.decide(|state, now, facts| state.journaled.ledger.worker_failed(worker, round, now, facts))?;
        self.settle(decided.durably()).await
    }

    /// Passes the rendezvous' nodes to the ledger.
    pub(crate) fn observe_nodes(&self, nodes: &ObservedNodes) -> Result<(), Cause> {
        self.decide(|state, now, facts| state.journaled.ledger.observe_nodes(nodes, now, facts)).map(|_| ())
    }

    /// Passes the pods that lease data to the ledger; `over` are those that have ended.
    pub(crate) fn observe_pods(&self, here: &BTreeSet<&str>, over: &BTreeSet<&str>) -> Result<(), Cause> {
        self.decide(|state, now, facts| state.journaled.ledger.observe_pods(here, over, now, facts)).map(|_| ())
    }

    pub(crate) fn session_begun(&self, worker: &WorkerId) {
        let mut state = self.lock();
        *state.sessions.entry(worker.clone()).or_default() += 1;
        state.journaled.ledger.session_opened(worker);
    }

    /// A session of a worker has ended. After the last one the worker has a while to reconnect.
    pub(crate) fn session_ended(&self, worker: &WorkerId) {
        let now = self.0.clock.now();
        let mut state = self.lock();
        let left = state.sessions.get_mut(worker).map_or(0, |sessions| {
            *sessions -= 1;
            *sessions
        });
        if left == 0 {
            state.sessions.remove(worker);
            state.journaled.ledger.session_closed(worker, now);
        }
    }

    /// Expires leases without progress, and removes workers that did not reconnect.
    pub(crate) fn tick(&self) -> Result<(), Cause> {
        self.decide(|state, now, facts| state.journaled.ledger.tick(now, facts)).map(|_| ())
    }

    pub fn status(&self) -> Vec<DatasetStatus> {
        let state = self.lock();
        let ledger = &state.journaled.ledger;
        ledger
            .datasets()
            .map(|spec| DatasetStatus {
                spec: spec.clone(),
                totals: ledger.totals(&spec.name).unwrap_or_default(),
                skipped_records: state.journaled.skipped_records.of(&spec.name),
                quarantine: ledger
                    .quarantined(&spec.name)
                    .into_iter()
                    .map(|(epoch, batch, failures)| {
                        let records = records_of(spec, epoch, batch);
                        QuarantinedBatch { epoch, batch, failures, records }
                    })
                    .collect(),
                finished: ledger.is_finished(&spec.name),
            })
            .collect()
    }

    /// Accounted records of a dataset, in all epochs.
    pub fn accounted(&self, dataset: &str) -> u64 {
        self.lock().journaled.ledger.totals(dataset).map_or(0, |totals| totals.accounted)
    }

    /// The number by which parameter servers know a dataset.
    pub fn number(&self, dataset: &str) -> u32 {
        self.lock().journaled.ledger.dataset(dataset).map_or(0, DatasetSpec::number)
    }

    pub fn records(&self, lease: &Lease) -> Vec<(u64, RecordsOfBatch)> {
        let state = self.lock();
        let Some(spec) = state.journaled.ledger.dataset(&lease.dataset) else { return Vec::new() };
        let batches = lease.batches.first..lease.batches.end();
        batches.map(|batch| (batch, records_of(spec, lease.epoch, batch))).collect()
    }

    /// The last durable LSN.
    pub fn durable_lsn(&self) -> u64 {
        self.0.journal.durable_lsn().0
    }

    /// Limits a request to what one answer can hold.
    fn bounded(&self, request: &LeaseRequest) -> LeaseRequest {
        let state = self.lock();
        let spec = state.journaled.ledger.dataset(&request.dataset);
        let picked = spec.filter(|spec| matches!(spec.order, Order::ShuffledRecords { .. }));
        let most = picked.map_or(MAX_LEASE, |spec| (MAX_PICKED / spec.batch).max(1));
        LeaseRequest { batches: request.batches.clamp(1, most), ..request.clone() }
    }

    /// Reads the ledger under the lock.
    pub(crate) fn with_ledger<R>(&self, act: impl FnOnce(&Ledger) -> R) -> R {
        act(&self.lock().journaled.ledger)
    }

    /// Reads the journaled data under the lock.
    pub(crate) fn with_journaled<R>(&self, act: impl FnOnce(&JournaledData) -> R) -> R {
        act(&self.lock().journaled)
    }

    /// Lets the ledger decide and appends its facts to the journal, under one lock.
    fn decide<T>(&self, act: impl FnOnce(&mut DataState, Duration, &mut Vec<Fact>) -> T) -> Result<Decided<T>, Cause> {
        let inner = &self.0;
        if !inner.journal.has_room() {
            let detail = "the journal cannot be written; try again when the disk has room";
            return Err(Cause::new(Reason::JournalFull, detail));
        }
        let mut facts = Vec::new();
        let mut state = self.lock();
        let version = state.journaled.ledger.availability_version();
        let skipped_records = state.journaled.skipped_records.clone();
        let answer = act(&mut state, inner.clock.now(), &mut facts);
        let has_availability_changed = state.journaled.ledger.availability_version() != version;
        if facts.is_empty() {
            // A repeated request may depend on facts that are not durable yet.
            return Ok(Decided { answer, lsn: inner.journal.last(), must_be_durable: false });
        }
        let skipped_records = Some(&state.journaled.skipped_records).filter(|counts| **counts != skipped_records);
        let appended = inner.journal.append(&records::encode_data(&facts, skipped_records));
        let lsn = appended.map_err(|error| {
            let detail = error.to_string();
            // The ledger is ahead of the journal. The master must end; its successor starts from the journal.
            inner.refused.send_if_modified(|refused| refused.replace(error).is_none());
            Cause::new(Reason::JournalFull, detail)
        })?;
        // Resuming workers repeat their acknowledgements to the next master. Other facts are durable, or at least
        // written to the system, before any client learns of them.
        let must_be_durable = facts.iter().any(Fact::must_be_durable);
        let will_be_repeated = facts.iter().all(|fact| matches!(fact, Fact::Accounted { .. }));
        let is_written = must_be_durable || will_be_repeated || inner.journal.flush().is_ok();
        drop(state);
        if has_availability_changed {
            inner.changes.send_modify(|count| *count += 1);
        }
        for fact in &facts {
            log(fact);
        }
        Ok(Decided { answer, lsn, must_be_durable: must_be_durable || !is_written })
    }

    async fn settle<T>(&self, decided: Decided<T>) -> Result<T, Cause> {
        if decided.must_be_durable {
            let durable = self.0.journal.durable(decided.lsn).await;
            durable.map_err(|error| Cause::new(Reason::JournalFull, error.to_string()))?;
        }
        Ok(decided.answer)
    }

    fn lock(&self) -> MutexGuard<'_, DataState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JournaledData {
    /// Lets the ledger decide on acknowledged batches, and counts the skipped records of those that it accounts for.
    fn count_skipped<T>(
        &mut self,
        done: &[AcknowledgedBatches],
        facts: &mut Vec<Fact>,
        act: impl FnOnce(&mut Ledger, &mut Vec<Fact>) -> T,
    ) -> T {
        let some: Vec<(Arc<str>, &AcknowledgedBatches)> = done
            .iter()
            .filter(|done| done.skipped_records > 0)
            // Looked up first: the ledger forgets a completed lease.
            .filter_map(|done| Some((Arc::from(self.ledger.dataset_of(done.grant)?), done)))
            .collect();
        let answer = act(&mut self.ledger, facts);
        for (dataset, done) in some {
            self.skipped_records.count(&dataset, done, facts, &self.ledger);
        }
        answer
    }

    /// The position as a token.
    fn position(&self) -> String {
        position_token::encode(self.ledger.position(), self.skipped_records.at_position(&self.ledger))
    }
}

/// Decodes and validates a position from outside.
fn read_position(token: &str) -> Result<(Position, SkippedRecords), Cause> {
    let (position, skipped_records) = position_token::decode(token)?;
    limits::check_position(&position, &skipped_records)?;
    Ok((position, skipped_records))
}

/// Logs rare facts. Grants and acknowledgements are too many.
fn log(fact: &Fact) {
    match fact {
        Fact::Registered { spec } => {
            tracing::info!(dataset = %spec.name, records = spec.records, batch = spec.batch, "dataset registered");
        }
        Fact::Returned { grant, batches, repeated, cause, .. } if *repeated > 0 => {
            tracing::info!(%grant, %batches, %cause, "lease returned");
        }
        Fact::Quarantined { dataset, epoch, batch, cause } => {
            tracing::error!(%dataset, epoch, batch, %cause, "batch quarantined");
        }
        Fact::Rewound { position } => tracing::info!(datasets = position.datasets.len(), "ledger rewound"),
        Fact::EpochBegun { .. }
        | Fact::Granted { .. }
        | Fact::Accounted { .. }
        | Fact::Returned { .. }
        | Fact::Failed { .. }
        | Fact::FailureSettled { .. }
        | Fact::BatchTimeMeasured { .. }
        | Fact::Charged { .. } => {}
    }
}

fn records_of(spec: &DatasetSpec, epoch: u32, batch: u64) -> RecordsOfBatch {
    match spec.records_of(epoch, batch) {
        flexor_engine::ledger::Records::Run { first, count } => RecordsOfBatch::Run { first, count },
        flexor_engine::ledger::Records::Picked(records) => RecordsOfBatch::Picked { records },
    }
}
