//! Membership of parameter servers: decides the partition map, as a pure state machine.
//!
//! Servers connect, drain and are lost; the controller sets their target number. Every decision is a complete partition
//! map with the next epoch, and is journalled before any server learns of it. Between two maps, partitions are copied
//! while training goes on ([`transfers`]). After a loss the backup takes over, or the partition restarts from a
//! checkpoint ([`failover`]).
//!
//! This module does *not* handle parameters: a partition is a number here. Nor does it decide how many servers there are.

mod balance;
mod checkpoints;
mod fact;
mod failover;
pub mod invariants;
mod journal_loss;
mod lost_updates;
mod partition_map;
mod server;
#[cfg(test)]
mod simulation;
mod sync_orders;
#[cfg(test)]
mod tests;
mod transfers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flexor_model::{MapEpoch, Reason};
use serde::{Deserialize, Serialize};

use crate::active_clock::ActiveClock;
pub use crate::cause::Cause;
use checkpoints::CheckpointAttempt;
pub use checkpoints::{Checkpoint, CheckpointOrder, Seal};
pub use fact::Fact;
use lost_updates::Generations;
pub use lost_updates::MOST_GENERATIONS;
pub use partition_map::{Partition, PartitionGeneration, PartitionMap, PartitionReplicas, Source};
use server::ServerState;
pub use server::{DesiredServers, ServerId};
pub use sync_orders::SyncOrder;
use transfers::Transfer;

/// After a restart of the master, servers in the map have this long to reconnect.
const RESTART_GRACE: Duration = Duration::from_secs(10);
/// Without a controller, the first map is made when no server has joined for this long.
const JOIN_QUIET_PERIOD: Duration = Duration::from_secs(1);

/// How partitions apply updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Each update on arrival. Losing all replicas of a partition loses its updates since the last checkpoint; other
    /// partitions keep theirs.
    Async,
    /// In synchronous steps. All partitions are at the same step, so a loss rewinds all of them.
    Sync,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Number of partitions.
    pub partitions: u32,
    /// Replicas of each partition: 1 or 2.
    pub replication_factor: u32,
    pub mode: Mode,
    /// A sync without progress for this long is aborted.
    pub sync_limit: Duration,
    /// Number of checkpoints to keep, 0 for all; none where no checkpoints are made.
    pub keep: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            partitions: 256,
            replication_factor: 1,
            mode: Mode::Async,
            sync_limit: Duration::from_secs(30),
            keep: None,
        }
    }
}

/// The parameter servers of a job, their partition map and everything in progress.
///
/// Fields marked `serde(skip)` are not journalled: a restarted master starts without them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PsMembership {
    #[serde(skip)]
    settings: Settings,
    model: Option<Arc<str>>,
    map: PartitionMap,
    /// Complete and readable checkpoints, the latest last.
    checkpoints: Vec<Checkpoint>,
    /// The highest number of a checkpoint, complete or not.
    last_checkpoint_number: u64,
    /// Epoch of the map that last rewound all partitions together.
    #[serde(default)]
    rewind_epoch: MapEpoch,
    /// Servers may know maps up to this epoch, from a part of the journal that is lost.
    #[serde(default)]
    epoch_floor: u64,
    /// How often partitions were restored, and the last cause.
    #[serde(default)]
    restorations: (u64, Option<Cause>),
    /// Lost updates by partition and generation.
    lost: BTreeMap<Partition, BTreeMap<u64, u64>>,
    /// Acknowledged versions of the last generations of each partition.
    #[serde(default)]
    versions: BTreeMap<Partition, Generations>,
    /// Servers that are connected or may still reconnect, by name.
    #[serde(skip)]
    registered: BTreeMap<Arc<str>, ServerState>,
    #[serde(skip)]
    desired: DesiredServers,
    #[serde(skip)]
    transfers: BTreeMap<Partition, Transfer>,
    /// Partitions whose last transfer failed, and when the next may start.
    #[serde(skip)]
    retry_after: BTreeMap<Partition, Duration>,
    #[serde(skip)]
    last_sync_id: u64,
    /// No transfer starts while a checkpoint is in progress.
    #[serde(skip)]
    checkpoint_attempt: Option<CheckpointAttempt>,
    /// Why the last checkpoint failed.
    #[serde(skip)]
    checkpoint_failure: Option<Cause>,
    /// A server has reported which checkpoints exist.
    #[serde(skip)]
    has_checkpoint_listing: bool,
    /// Since when there are partitions without a primary.
    #[serde(skip)]
    orphaned_at: Option<Duration>,
    /// Until then, servers that an earlier master knew may still reconnect.
    #[serde(skip)]
    restart_grace_until: Duration,
    /// When a new server last joined.
    #[serde(skip)]
    last_joined_at: Duration,
    #[serde(skip)]
    clock: ActiveClock,
}

impl PsMembership {
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Starts work after a replay of the journal: servers in the map get a grace period to reconnect. Sync ids start at
    /// the journal's generation, so no id is ever used twice.
    pub fn resume(mut self, settings: Settings, journal_generation: u64, now: Duration) -> Self {
        self.settings = settings;
        self.clock = ActiveClock::since(now);
        // An earlier master may have had a higher limit.
        self.forget_old_checkpoints();
        self.last_sync_id = journal_generation << 32;
        self.restart_grace_until = if self.map.epoch.0 > 0 { now + RESTART_GRACE } else { now };
        let keepers = self.map.partitions.iter();
        let keepers = keepers.flat_map(|replicas| [&replicas.primary, &replicas.backup]).flatten();
        for server in keepers {
            let disconnected = ServerState {
                incarnation: server.incarnation,
                address: Arc::from(""),
                reconnect_by: Some(now + RESTART_GRACE),
                is_draining: false,
            };
            self.registered.entry(server.name.clone()).or_insert(disconnected);
        }
        self.orphaned_at = self.map.partitions.iter().any(|replicas| replicas.primary.is_none()).then_some(now);
        self
    }

    /// Declares the model. Every worker declares it; the first one decides.
    pub fn declare_model(&mut self, model: &str, facts: &mut Vec<Fact>) -> Result<(), Cause> {
        match &self.model {
            Some(known) if **known == *model => Ok(()),
            Some(known) => {
                let detail = format!("the job trains another model: {known}; start another job for {model}");
                Err(Cause::new(Reason::ModelDiffers, detail))
            }
            None => {
                self.decide(Fact::ModelDeclared { model: model.into() }, facts);
                Ok(())
            }
        }
    }

    /// A server opened a session, for the first time or again.
    pub fn connect_server(
        &mut self,
        server: &ServerId,
        address: impl Into<Arc<str>>,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) -> Result<(), Cause> {
        self.clock.advance(now);
        let known = self.registered.get(&server.name).map(|state| state.incarnation);
        if let Some(later) = known.filter(|known| *known > server.incarnation) {
            let detail = format!("{} has a later incarnation ({later})", server.name);
            return Err(Cause::new(Reason::ServerReplaced, detail));
        }
        let is_draining = self.server(server).is_some_and(|state| state.is_draining);
        let state =
            ServerState { incarnation: server.incarnation, address: address.into(), reconnect_by: None, is_draining };
        self.registered.insert(server.name.clone(), state);
        if known.is_some_and(|known| known < server.incarnation) {
            let detail = format!("{} connected with a later incarnation", server.name);
            self.fail_over_removed(&Cause::new(Reason::ServerReplaced, detail), facts);
        }
        if known != Some(server.incarnation) {
            self.last_joined_at = self.clock.now();
        }
        self.reconcile(facts);
        Ok(())
    }

    /// A server has announced that it will end. Its partitions move to other servers; then it is released.
    pub fn drain_server(&mut self, server: &ServerId, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if let Some(state) = self.server_mut(server) {
            state.is_draining = true;
        }
        self.reconcile(facts);
    }

    pub fn set_desired(&mut self, desired: &DesiredServers, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        self.desired = desired.clone();
        self.reconcile(facts);
    }

    /// Acts on deadlines that have passed.
    pub fn tick(&mut self, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        self.reconcile(facts);
    }

    /// Applies a fact from the journal.
    pub fn replay(&mut self, fact: &Fact) {
        self.apply(fact);
    }

    pub fn map(&self) -> &PartitionMap {
        &self.map
    }

    /// The model, once a worker has declared it.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Epoch of the map that last rewound all partitions together; 0 where none did.
    pub fn rewind_epoch(&self) -> MapEpoch {
        self.rewind_epoch
    }

    /// How often partitions without a surviving replica were restored, and the last cause.
    pub fn restorations(&self) -> (u64, Option<&Cause>) {
        (self.restorations.0, self.restorations.1.as_ref())
    }

    pub fn set_mode(&mut self, mode: Mode) {
        self.settings.mode = mode;
    }

    /// Servers that are connected or may still reconnect.
    pub fn servers(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.registered.iter().map(|(name, state)| ServerId { name: name.clone(), incarnation: state.incarnation })
    }

    /// The address of a registered server; none before it has connected to this master.
    pub fn address(&self, server: &ServerId) -> Option<Arc<str>> {
        Some(self.server(server)?.address.clone()).filter(|address| !address.is_empty())
    }

    /// Whether the server has lost its session and may still reconnect.
    pub fn is_disconnected(&self, server: &ServerId) -> bool {
        self.server(server).is_some_and(|state| state.reconnect_by.is_some())
    }

    /// Servers that the controller removes and that are drained.
    pub fn released(&self) -> impl Iterator<Item = &Arc<str>> {
        self.desired.leaving.iter().filter(|name| self.map.epoch.0 > 0 && self.is_drained(name))
    }

    /// Whether a server that announced its end is drained, so that it may end. It receives no more partitions.
    pub fn is_released(&self, server: &ServerId) -> bool {
        self.server(server).is_some_and(|state| state.is_draining) && self.is_drained(&server.name)
    }

    fn is_drained(&self, name: &Arc<str>) -> bool {
        let replicas = self.map.partitions.iter().flat_map(|replicas| [&replicas.primary, &replicas.backup]);
        replicas.flatten().all(|id| id.name != *name)
            && self.transfers.values().all(|transfer| transfer.to.name != *name)
    }

    /// Whether the controller removes the server, or the server has announced its end.
    fn is_leaving(&self, name: &str) -> bool {
        self.desired.leaving.contains(name) || self.registered.get(name).is_some_and(|state| state.is_draining)
    }

    /// Whether every partition has as many replicas on connected servers as the replication factor says.
    pub fn is_fully_replicated(&self) -> bool {
        let needs_backup = self.settings.replication_factor > 1;
        let is_up = |server: &Option<ServerId>| server.as_ref().is_some_and(|server| self.is_connected(server));
        !self.map.partitions.is_empty()
            && self
                .map
                .partitions
                .iter()
                .all(|replicas| is_up(&replicas.primary) && (is_up(&replicas.backup) || !needs_backup))
    }

    /// Whether every partition is on its target servers, and no transfer runs.
    pub fn is_balanced(&self) -> bool {
        let targets = self.targets();
        self.transfers.is_empty()
            && !targets.is_empty()
            && self.map.partitions.len() == targets.len()
            && self.map.partitions.iter().zip(&targets).all(|(replicas, target)| {
                replicas.primary.as_ref() == Some(&target.primary)
                    && (target.backup.is_none() || replicas.backup == target.backup)
            })
    }

    fn reconcile(&mut self, facts: &mut Vec<Fact>) {
        self.expire_disconnected(facts);
        self.form_first_map(facts);
        self.restore_orphans(facts);
        self.abort_stale_transfers();
        self.start_transfers();
        while self.advance_transfers(facts) {
            // A completed transfer may let another one start.
            self.start_transfers();
        }
        self.drop_leaving_backups(facts);
        self.check_checkpoint_progress();
        debug_assert_eq!(invariants::broken(self), None, "after {facts:?}");
    }

    /// Makes the first map when all expected servers are connected.
    fn form_first_map(&mut self, facts: &mut Vec<Fact>) {
        let servers = self.connected_servers();
        if self.map.epoch.0 > 0 || servers.is_empty() || self.needs_checkpoint_listing() {
            return;
        }
        let is_complete = match self.desired.expected {
            Some(expected) => servers.len() >= expected as usize,
            None => self.clock.now() >= self.last_joined_at + JOIN_QUIET_PERIOD,
        };
        if !is_complete {
            return;
        }
        let generation = PartitionGeneration { number: 1, source: self.restore_source() };
        let empty = PartitionReplicas { primary: None, backup: None, generation, primary_since: MapEpoch(0) };
        let blank = PartitionMap { epoch: MapEpoch(0), partitions: vec![empty; self.settings.partitions as usize] };
        // Primary and backup start from the same values, so the backup is in sync.
        let targets = balance::targets(&blank, &servers, self.settings.replication_factor);
        let assign = |(replicas, target): (PartitionReplicas, balance::TargetReplicas)| PartitionReplicas {
            primary: Some(target.primary),
            backup: target.backup,
            ..replicas
        };
        let changed = (0..).map(Partition).zip(blank.partitions.into_iter().zip(targets).map(assign)).collect();
        let cause = Cause::new(Reason::PsMembershipFormed, format!("{} servers are connected", servers.len()));
        self.publish_map(changed, cause, facts);
    }

    /// Decides a map with the next epoch, and dates the primaries that it appoints.
    fn publish_map(&mut self, changed: Vec<(Partition, PartitionReplicas)>, cause: Cause, facts: &mut Vec<Fact>) {
        let epoch = MapEpoch(self.map.epoch.0.max(self.epoch_floor).saturating_add(1));
        let primary =
            |partition: Partition| self.map.replicas(partition).and_then(|replicas| replicas.primary.as_ref());
        let dated = |(partition, replicas): (Partition, PartitionReplicas)| {
            let primary_since =
                if primary(partition) == replicas.primary.as_ref() { replicas.primary_since } else { epoch };
            (partition, PartitionReplicas { primary_since, ..replicas })
        };
        let changed = changed.into_iter().map(dated).collect();
        self.decide(Fact::MapChanged { epoch, changed, cause }, facts);
    }

    fn decide(&mut self, fact: Fact, facts: &mut Vec<Fact>) {
        self.apply(&fact);
        facts.push(fact);
    }

    fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::ModelDeclared { model } => self.model = Some(model.clone()),
            Fact::MapChanged { epoch, changed, cause } => {
                self.map.epoch = *epoch;
                if cause.reason == Reason::PartitionsRestored {
                    self.restorations = (self.restorations.0 + 1, Some(cause.clone()));
                }
                for (partition, replicas) in changed {
                    match self.map.replicas_mut(*partition) {
                        Some(known) => *known = replicas.clone(),
                        // The first map names all partitions, in order.
                        None => self.map.partitions.push(replicas.clone()),
                    }
                    self.apply_generation(*partition, replicas.generation.number);
                }
            }
            Fact::CheckpointStarted { checkpoint } => {
                self.last_checkpoint_number = self.last_checkpoint_number.max(*checkpoint);
            }
            Fact::CheckpointCompleted { checkpoint, ledger, oldest } => {
                self.apply_checkpoint_completed(*checkpoint, ledger, *oldest);
            }
            Fact::CheckpointDamaged { checkpoint, .. } => self.checkpoints.retain(|known| known.number != *checkpoint),
            Fact::UpdatesLost { partition, generation, updates } => self.apply_lost(*partition, *generation, *updates),
            Fact::VersionsAcknowledged { acknowledged } => self.apply_acknowledged(acknowledged),
            Fact::GenerationsStarted { started } => self.apply_starts(started),
            Fact::Rewound { .. } => self.rewind_epoch = self.map.epoch,
        }
    }

    fn is_registered(&self, server: &ServerId) -> bool {
        self.server(server).is_some()
    }

    fn is_connected(&self, server: &ServerId) -> bool {
        self.server(server).is_some_and(|state| state.reconnect_by.is_none())
    }

    fn server(&self, server: &ServerId) -> Option<&ServerState> {
        self.registered.get(&server.name).filter(|state| state.incarnation == server.incarnation)
    }

    fn server_mut(&mut self, server: &ServerId) -> Option<&mut ServerState> {
        self.registered.get_mut(&server.name).filter(|state| state.incarnation == server.incarnation)
    }
}
