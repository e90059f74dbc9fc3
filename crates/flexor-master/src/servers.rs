//! The parameter servers of the job: runs the membership state machine ([`PsMembership`]) on top of the journal.
//!
//! Decisions are published only when they are durable. The map and all orders are published together. Otherwise a former
//! primary could learn that it is no longer frozen before it learns that it is no longer primary.
//!
//! Lock order: the servers' state comes before the ledger. No code locks the servers while it holds the ledger.

mod checkpoint_schedule;
mod closed;
mod load;
mod steps;
#[cfg(test)]
mod tests;
mod updates;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flexor_engine::Cause;
use flexor_engine::ledger::WorkerId;
use flexor_engine::ps_membership::{
    DesiredServers, Fact, MOST_GENERATIONS, Mode, Partition, PartitionMap, PartitionReplicas, PsMembership, ServerId,
    Settings, Source, SyncOrder,
};
use flexor_model::model_spec::ModelSpec;
use flexor_model::spans::MOST_VERSION_RANGES;
use flexor_model::{Generation, MapEpoch, PARTITIONS, Reason, Spans};
use flexor_wire::master::v1 as wire;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use self::checkpoint_schedule::Schedule;
pub use self::checkpoint_schedule::{CheckpointStatus, Checkpoints};
pub(crate) use self::closed::Closed;
pub use self::load::LoadStatus;
use self::load::Loads;
use self::updates::Updates;
pub use self::updates::UpdatesStatus;
use crate::clock::Clock;
use crate::data::Data;
use crate::journal::{Journal, JournalError, Lsn};
use crate::records;

/// How often deadlines are checked.
const TICK: Duration = Duration::from_millis(200);
/// The most generations of partitions in one report of versions.
const MOST_REPORTED: usize = PARTITIONS as usize * MOST_GENERATIONS;

/// A handle to the parameter servers, shared by all sessions.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Counts up whenever the published state may change.
    changes: watch::Sender<u64>,
    published: watch::Sender<Arc<PublishedState>>,
    closed: watch::Sender<Arc<Closed>>,
    data: Data,
    /// None where no checkpoints are made.
    checkpoints: Option<Checkpoints>,
    journal: Arc<Journal>,
    clock: Clock,
    refused: watch::Sender<Option<JournalError>>,
    generation: Generation,
}

struct State {
    members: PsMembership,
    /// Open sessions per server. A server has two for a moment when it reconnects.
    sessions: HashMap<ServerId, u32>,
    loads: Loads,
    updates: Updates,
    schedule: Schedule,
    /// Pods that were alive in the controller's last observation.
    observed_pods: BTreeSet<String>,
    /// Journal position of the last decision.
    lsn: Lsn,
}

impl State {
    /// Removes a session of a server; returns whether it was the last.
    fn remove_session(&mut self, server: &ServerId) -> bool {
        let left = self.sessions.get_mut(server).map_or(0, |sessions| {
            *sessions -= 1;
            *sessions
        });
        if left == 0 {
            self.sessions.remove(server);
        }
        left == 0
    }
}

/// What servers and clients learn: durable, and published as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PublishedState {
    pub(crate) map: wire::PartitionMap,
    syncs: BTreeMap<ServerId, Vec<wire::SyncOrder>>,
    checkpoints: Option<wire::CheckpointDirectory>,
    checkpoint_orders: BTreeMap<ServerId, wire::CheckpointOrder>,
    /// Sent separately, because it changes with every step.
    pub(crate) steps: Option<wire::CommittedSteps>,
    /// Drained servers that the controller removes.
    pub(crate) released: Vec<String>,
    /// Drained servers that announced their end themselves.
    released_on_request: BTreeSet<ServerId>,
}

impl PublishedState {
    pub(crate) fn plan_for(&self, server: &ServerId) -> wire::ServerPlan {
        let syncs = self.syncs.get(server).cloned().unwrap_or_default();
        let (checkpoints, checkpoint) = (self.checkpoints.clone(), self.checkpoint_orders.get(server).cloned());
        let released = self.released_on_request.contains(server);
        wire::ServerPlan { map: Some(self.map.clone()), syncs, checkpoints, checkpoint, released }
    }
}

/// What `/api/status` shows of the servers.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServersStatus {
    /// Epoch of the partition map; 0 before the first.
    pub epoch: MapEpoch,
    /// Servers that are registered or in the map.
    pub servers: Vec<ServerStatus>,
    /// Partitions without a primary.
    pub unowned: usize,
    /// How often partitions without a surviving replica were restored.
    pub restorations: u64,
    /// The cause of the last restoration.
    pub last_restoration: Option<String>,
    /// Every partition has as many replicas as the replication factor says.
    pub redundant: bool,
    /// Every partition is on its target servers.
    pub settled: bool,
    /// None where no checkpoints are made.
    pub checkpoints: Option<CheckpointStatus>,
    /// None before a worker has reported its pushes.
    pub updates: Option<UpdatesStatus>,
}

/// What `/api/status` shows of one server.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    pub name: String,
    pub incarnation: u64,
    /// None while the server is disconnected.
    pub address: Option<String>,
    /// How many partitions it is primary of.
    pub partitions: usize,
    /// How many partitions it backs up.
    pub copies: usize,
    #[serde(flatten)]
    pub load: LoadStatus,
}

impl Servers {
    pub(crate) fn new(
        members: PsMembership,
        (settings, checkpoints): (Settings, Option<Checkpoints>),
        data: Data,
        journal: Arc<Journal>,
        clock: Clock,
        refused: watch::Sender<Option<JournalError>>,
    ) -> Self {
        let generation = if journal.is_durable() { journal.generation() } else { Generation(clock.wall().0) };
        let keep = checkpoints.as_ref().map(|checkpoints| checkpoints.keep as usize);
        let members = members.resume(Settings { keep, ..settings }, generation.0, clock.now());
        let state = State {
            members,
            sessions: HashMap::new(),
            loads: Loads::default(),
            updates: Updates::default(),
            schedule: Schedule::default(),
            observed_pods: BTreeSet::new(),
            lsn: journal.last(),
        };
        let (changes, published) = (watch::Sender::new(0), watch::Sender::new(Arc::default()));
        let (state, closed) = (Mutex::new(state), watch::Sender::new(Arc::default()));
        Self(Arc::new(Inner {
            state,
            changes,
            published,
            closed,
            data,
            checkpoints,
            journal,
            clock,
            refused,
            generation,
        }))
    }

    pub(crate) fn published(&self) -> watch::Receiver<Arc<PublishedState>> {
        self.0.published.subscribe()
    }

    /// Drained servers that the controller may delete, as published.
    pub fn released(&self) -> Vec<String> {
        self.0.published.borrow().released.clone()
    }

    /// Accounted records, of which no push comes again.
    pub(crate) fn closed(&self) -> watch::Receiver<Arc<Closed>> {
        self.0.closed.subscribe()
    }

    /// Declares the model that the job trains.
    pub(crate) async fn declare(&self, model: &str) -> Result<(), Cause> {
        ModelSpec::parse(model).map_err(|error| Cause::new(Reason::ModelInvalid, error.to_string()))?;
        self.wait_for_checkpoint_listing().await?;
        self.decide(|members, _, facts| members.declare_model(model, facts))??;
        let lsn = self.lock().lsn;
        let durable = self.0.journal.durable(lsn).await;
        durable.map_err(|error| Cause::new(Reason::JournalFull, error.to_string()))
    }

    /// A server opened a session.
    pub(crate) fn open_session(&self, server: &ServerId, address: &str) -> Result<(), Cause> {
        // Counted first, so that an older session that ends meanwhile is not the last.
        *self.lock().sessions.entry(server.clone()).or_default() += 1;
        let connected =
            self.decide(|members, now, facts| members.connect_server(server, address, now, facts)).flatten();
        if connected.is_err() {
            self.lock().remove_session(server);
        }
        connected
    }

    /// A session of a server ended. After the last one, the server has a grace period to reconnect.
    pub(crate) fn close_session(&self, server: &ServerId) {
        let now = self.0.clock.now();
        let mut state = self.lock();
        if state.remove_session(server) {
            state.members.disconnect_server(server, now);
        }
    }

    /// A server announced its end.
    pub(crate) fn drain_server(&self, server: &ServerId) -> Result<(), Cause> {
        self.decide(|members, now, facts| members.drain_server(server, now, facts))
    }

    /// Applies the report of a server about a sync or a backup.
    pub(crate) fn apply_report(
        &self,
        act: impl FnOnce(&mut PsMembership, Duration, &mut Vec<Fact>),
    ) -> Result<(), Cause> {
        self.decide(act)
    }

    pub(crate) fn record_load(&self, server: &ServerId, load: wire::ServerLoad) {
        let now = self.0.clock.now();
        self.lock().loads.record(server, load, now);
    }

    pub(crate) fn last_load(&self, server: &str) -> Option<(Duration, wire::ServerLoad)> {
        self.lock().loads.last_of(server)
    }

    /// A worker reports the outcome of its pushes.
    pub(crate) fn record_updates(&self, worker: &WorkerId, report: &wire::WorkerUpdates) {
        self.lock().updates.record(worker, report.repeats);
    }

    /// A worker reports the versions of the batches that it acknowledges next.
    pub(crate) fn record_acknowledged(&self, reported: &[wire::AcknowledgedVersions]) -> Result<(), Cause> {
        if reported.is_empty() {
            return Ok(());
        }
        let is_too_long = |one: &wire::AcknowledgedVersions| one.gaps.len() > 2 * MOST_VERSION_RANGES;
        if reported.len() > MOST_REPORTED || reported.iter().any(is_too_long) {
            let detail = format!(
                "a report has versions of at most {MOST_REPORTED} generations of partitions, in at most \
                 {MOST_VERSION_RANGES} ranges each"
            );
            return Err(Cause::new(Reason::ProtocolViolation, detail));
        }
        let versions =
            |one: &wire::AcknowledgedVersions| (Partition(one.partition), one.generation, Spans::from_gaps(&one.gaps));
        // Nothing that is published depends on versions.
        self.decide_unpublished(|members, _, facts| {
            members.record_acknowledged(reported.iter().map(versions), facts);
            ((), (!facts.is_empty()).then(|| self.append(members, facts)).transpose())
        })
    }

    /// Sets the target number of servers, the pods that are alive, and the servers to drain.
    pub fn observe(&self, expected: u32, alive: &[&str], leaving: &[&str]) -> Result<(), Cause> {
        let leaving = leaving.iter().map(|name| Arc::from(*name)).collect();
        let alive = alive.iter().map(ToString::to_string).collect();
        self.set_desired(&DesiredServers { expected: Some(expected), leaving }, alive)
    }

    /// Takes over the controller's target, and the pods that are alive.
    pub(crate) fn set_desired(&self, desired: &DesiredServers, alive: BTreeSet<String>) -> Result<(), Cause> {
        // A server may connect before the controller reports its pod. So a missing pod counts as gone only if it was
        // reported before, or if its server is disconnected.
        let before = self.lock().observed_pods.clone();
        self.decide(|members, now, facts| {
            let is_gone = |server: &ServerId| {
                !alive.contains(&*server.name) && (before.contains(&*server.name) || members.is_disconnected(server))
            };
            let gone: Vec<ServerId> = members.servers().filter(is_gone).collect();
            for server in gone {
                let cause = Cause::new(Reason::ServerLost, format!("the pod of {server} is gone"));
                members.remove_server(&server, &cause, now, facts);
            }
            members.set_desired(desired, now, facts);
        })?;
        // After the decision: if it could not be journalled, the pod still counts as seen next time.
        self.lock().observed_pods = alive;
        Ok(())
    }

    /// Checks deadlines and publishes durable decisions, until the master ends.
    pub(crate) async fn run(&self) {
        let (mut changes, mut data_changes) = (self.0.changes.subscribe(), self.0.data.changes());
        let mut ticker = tokio::time::interval(TICK);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            changes.borrow_and_update();
            data_changes.borrow_and_update();
            let (published, lsn) = {
                let state = self.lock();
                // The ledger's decisions are published too.
                (self.current_state(&state), self.0.journal.last())
            };
            if self.0.journal.durable(lsn).await.is_err() {
                return;
            }
            self.0.published.send_if_modified(|known| {
                let is_new = **known != published;
                if is_new {
                    *known = Arc::new(published);
                }
                is_new
            });
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
                changed = data_changes.changed(), if self.0.checkpoints.is_some() || self.mode() == Mode::Sync => {
                    if changed.is_err() {
                        return;
                    }
                },
                _ = ticker.tick() => self.tick(),
            }
            if let Err(cause) = self.continue_checkpoint() {
                tracing::warn!(%cause, "the checkpoint cannot continue");
            }
        }
    }

    fn tick(&self) {
        if let Err(cause) = self.decide(PsMembership::tick) {
            tracing::warn!(%cause, "deadlines of parameter servers cannot be checked");
        }
        if let Err(cause) = self.start_checkpoint_when_due() {
            tracing::warn!(%cause, "no checkpoint can be started");
        }
        if self.0.closed.receiver_count() > 0 {
            // Under the lock, so that no rewind comes between reading the ledger and publishing.
            let _state = self.lock();
            let closed = self.0.data.with_ledger(|ledger| Closed::of(&ledger.position()));
            self.0.closed.send_if_modified(|known| {
                let is_new = **known != closed;
                if is_new {
                    *known = Arc::new(closed);
                }
                is_new
            });
        }
    }

    /// None while there are no servers.
    pub fn status(&self) -> Option<ServersStatus> {
        let now = self.0.clock.now();
        let state = self.lock();
        let members = &state.members;
        let mut servers: BTreeMap<ServerId, ServerStatus> = BTreeMap::new();
        let status = |server: &ServerId| ServerStatus {
            name: server.name.to_string(),
            incarnation: server.incarnation,
            address: members
                .address(server)
                .filter(|_| !members.is_disconnected(server))
                .map(|address| address.to_string()),
            load: state.loads.of(server, now),
            ..ServerStatus::default()
        };
        for server in members.servers() {
            servers.insert(server.clone(), status(&server));
        }
        for replicas in &members.map().partitions {
            if let Some(primary) = &replicas.primary {
                servers.entry(primary.clone()).or_insert_with(|| status(primary)).partitions += 1;
            }
            if let Some(backup) = &replicas.backup {
                servers.entry(backup.clone()).or_insert_with(|| status(backup)).copies += 1;
            }
        }
        (!servers.is_empty()).then(|| ServersStatus {
            epoch: members.map().epoch,
            servers: servers.into_values().collect(),
            unowned: members.map().partitions.iter().filter(|replicas| replicas.primary.is_none()).count(),
            restorations: members.restorations().0,
            last_restoration: members.restorations().1.map(|cause| cause.message.clone()),
            redundant: members.is_fully_replicated(),
            settled: members.is_balanced(),
            checkpoints: self.checkpoint_status(&state),
            // Read the ledger after the servers: no acknowledged version is of a step that the ledger has not committed.
            updates: state.updates.status(members, self.0.data.with_ledger(updates::UpdateLimit::of)),
        })
    }

    /// Map epoch of the last rewind; 0 where there was none.
    pub fn rewind_epoch(&self) -> u64 {
        self.lock().members.rewind_epoch().0
    }

    /// Reads the membership under its lock.
    pub(crate) fn with_members<R>(&self, act: impl FnOnce(&PsMembership) -> R) -> R {
        act(&self.lock().members)
    }

    /// Decides and journals, under the lock.
    fn decide<T>(&self, act: impl FnOnce(&mut PsMembership, Duration, &mut Vec<Fact>) -> T) -> Result<T, Cause> {
        self.decide_and_write(|members, now, facts| {
            let answer = act(members, now, facts);
            let written = (!facts.is_empty()).then(|| self.append(members, facts)).transpose();
            (answer, written)
        })
    }

    /// The same, where `act` itself journals and returns the journal position.
    fn decide_and_write<T>(
        &self,
        act: impl FnOnce(&mut PsMembership, Duration, &mut Vec<Fact>) -> (T, Result<Option<Lsn>, JournalError>),
    ) -> Result<T, Cause> {
        let answer = self.decide_unpublished(act)?;
        self.notify();
        Ok(answer)
    }

    /// The same, without waking the publisher.
    fn decide_unpublished<T>(
        &self,
        act: impl FnOnce(&mut PsMembership, Duration, &mut Vec<Fact>) -> (T, Result<Option<Lsn>, JournalError>),
    ) -> Result<T, Cause> {
        let inner = &self.0;
        if !inner.journal.has_room() {
            let detail = "the journal cannot be written at present; try again when the disk has room";
            return Err(Cause::new(Reason::JournalFull, detail));
        }
        let mut facts = Vec::new();
        let mode = self.mode();
        let mut state = self.lock();
        state.members.set_mode(mode);
        let (answer, written) = act(&mut state.members, inner.clock.now(), &mut facts);
        // A decision that cannot be journalled stays in memory only: this master ends, and the next one does not know it.
        let written = written.map_err(|error| {
            let detail = error.to_string();
            inner.refused.send_if_modified(|refused| refused.replace(error).is_none());
            Cause::new(Reason::JournalFull, detail)
        })?;
        state.lsn = written.unwrap_or(state.lsn);
        drop(state);
        log_facts(&facts);
        Ok(answer)
    }

    /// Journals facts. A rewind of the servers and of the data is one record.
    fn append(&self, members: &PsMembership, facts: &[Fact]) -> Result<Lsn, JournalError> {
        let journal = &self.0.journal;
        let rewind = facts.iter().find_map(|fact| match fact {
            Fact::Rewound { checkpoint, .. } => Some(*checkpoint),
            _ => None,
        });
        let Some(to) = rewind else { return journal.append(&records::encode_servers(facts)) };
        let ledger = to.and_then(|to| members.checkpoints().iter().find(|checkpoint| checkpoint.number == to));
        let ledger = ledger.map(|checkpoint| &*checkpoint.ledger);
        // Closed records are open again. No server may get an old list after the map with the rewind.
        self.0.closed.send_replace(Arc::default());
        let write = |data: &[_], skipped: Option<&_>| journal.append(&records::encode_both(facts, data, skipped));
        let rewound = self.0.data.rewind_with(ledger, write);
        rewound.map_err(|cause| JournalError::Contradiction(cause.to_string()))?
    }

    /// Wakes the publisher.
    fn notify(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    fn current_state(&self, state: &State) -> PublishedState {
        let members = &state.members;
        let syncs = members.servers().map(|server| {
            let orders = members.sync_orders(&server).into_iter().map(sync_order).collect();
            (server, orders)
        });
        let checkpoint_orders = members.servers().filter_map(|server| {
            let order = members.checkpoint_order(&server)?;
            let known = members.checkpoints().last().map(|checkpoint| checkpoint.number);
            Some((server, checkpoint_schedule::checkpoint_order(order, known)))
        });
        PublishedState {
            steps: self.steps(state),
            checkpoint_orders: checkpoint_orders.collect(),
            checkpoints: self.checkpoint_directory(members.needs_checkpoint_listing()),
            map: self.map(members),
            syncs: syncs.filter(|(_, orders): &(_, Vec<_>)| !orders.is_empty()).collect(),
            released: members.released().map(ToString::to_string).collect(),
            released_on_request: members.servers().filter(|server| members.is_released(server)).collect(),
        }
    }

    fn map(&self, members: &PsMembership) -> wire::PartitionMap {
        let PartitionMap { epoch, partitions } = members.map();
        let mut indexes: BTreeMap<ServerId, u32> = BTreeMap::new();
        let mut servers = Vec::new();
        let mut index_of = |server: &ServerId| {
            *indexes.entry(server.clone()).or_insert_with(|| {
                servers.push(server_of(server, &members.address(server).unwrap_or_default()));
                (servers.len() - 1) as u32
            })
        };
        let mut replicas = |replicas: &PartitionReplicas| wire::PartitionReplicas {
            primary: replicas.primary.as_ref().map(&mut index_of),
            backup: replicas.backup.as_ref().map(&mut index_of),
            generation: replicas.generation.number,
            primary_since: replicas.primary_since.0,
            checkpoint: match replicas.generation.source {
                Source::Initial => None,
                Source::Checkpoint(number) => Some(number),
            },
        };
        let partitions = partitions.iter().map(&mut replicas).collect();
        let model = members.model().unwrap_or_default().to_owned();
        let (generation, rewind_epoch) = (self.0.generation.0, members.rewind_epoch().0);
        wire::PartitionMap { generation, epoch: epoch.0, servers, partitions, model, rewind_epoch }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn server_of(server: &ServerId, address: &str) -> wire::Server {
    wire::Server { name: server.name.to_string(), incarnation: server.incarnation, address: address.to_owned() }
}

fn sync_order(order: SyncOrder) -> wire::SyncOrder {
    let SyncOrder { partition, sync_id, to, address, freeze } = order;
    wire::SyncOrder { partition: partition.0, sync_id, to: Some(server_of(&to, &address)), freeze }
}

fn log_facts(facts: &[Fact]) {
    let (mut partitions, mut lost) = (0, 0_u64);
    for fact in facts {
        match fact {
            Fact::ModelDeclared { model } => tracing::info!(model = model.len(), "model declared"),
            Fact::MapChanged { epoch, changed, cause } => {
                tracing::info!(%epoch, partitions = changed.len(), %cause, "new partition map");
            }
            Fact::Rewound { checkpoint, cause } => tracing::warn!(?checkpoint, %cause, "rewound to a checkpoint"),
            Fact::CheckpointStarted { checkpoint } => tracing::debug!(checkpoint, "checkpoint started"),
            Fact::CheckpointCompleted { checkpoint, .. } => tracing::info!(checkpoint, "checkpoint completed"),
            Fact::CheckpointDamaged { checkpoint, cause } => {
                tracing::warn!(checkpoint, %cause, "checkpoint discarded");
            }
            // There is one for every batch.
            Fact::VersionsAcknowledged { .. } => {}
            Fact::GenerationsStarted { started } => {
                tracing::debug!(partitions = started.len(), "new generations started");
            }
            Fact::UpdatesLost { updates, .. } => (partitions, lost) = (partitions + 1, lost.saturating_add(*updates)),
        }
    }
    if lost > 0 {
        tracing::warn!(partitions, updates = lost, "lost updates");
    }
}
