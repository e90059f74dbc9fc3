//! This server's role for each partition, and the servers that must have a change before a client is acknowledged.
//!
//! The state is locked while its partition changes. So replicated changes leave in the order in which they were applied,
//! and nothing is applied after the server has learnt that it is no longer primary.

use std::sync::Arc;

use flexor_model::MapEpoch;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::ServerName;
use super::replication_link::ReplicationLink;
use super::sequence::{SequenceNumber, SyncId};
use crate::placement::PartitionId;

/// The role of this server for a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ReplicaRole {
    /// The map does not name this server. It may hold a sync that is incomplete or not in the map yet.
    #[default]
    Absent,
    Primary,
    Backup,
}

/// A server to which the primary sends every change.
pub(super) struct ReplicationTarget {
    pub(super) server: ServerName,
    pub(super) link: Arc<ReplicationLink>,
    /// The sync that filled the target; none for a backup that started in sync.
    pub(super) sync_id: Option<SyncId>,
    /// The master's last order that concerns the target: reports carry its id.
    pub(super) order: Option<SyncId>,
    pub(super) sync_state: SyncState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncState {
    /// Contents are on their way. Clients are acknowledged without waiting for the target.
    Syncing,
    /// The target has everything. Clients are acknowledged only when it has their change.
    InSync,
    /// The target was in sync and has missed a change. No client is acknowledged before the master decides about it.
    Lagging,
}

impl ReplicationTarget {
    /// Whether the map may name the target as the backup. Then it stays a target until the master decides.
    pub(super) fn may_be_backup(&self) -> bool {
        match self.sync_state {
            SyncState::Syncing => false,
            SyncState::InSync | SyncState::Lagging => true,
        }
    }

    /// Whether further changes do not reach the target.
    pub(super) fn is_unreachable(&self) -> bool {
        self.sync_state == SyncState::Lagging || self.link.is_broken()
    }
}

/// The state of one partition on this server.
#[derive(Default)]
pub(super) struct ReplicaState {
    pub(super) role: ReplicaRole,
    /// Epoch of the last map that was applied to the partition.
    pub(super) map_epoch: MapEpoch,
    /// Map epoch in which the current primary was appointed. Replication from an earlier primary is void.
    pub(super) primary_since: MapEpoch,
    /// Generation and last change of the contents here.
    pub(super) last_applied: SequenceNumber,
    /// Set while the partition is frozen for a hand-over.
    pub(super) frozen_since: Option<Instant>,
    /// The last sync that failed. The master knows, and will order another.
    pub(super) failed_sync: SyncId,
    /// The partition is being read from a checkpoint, and is not here yet.
    pub(super) is_restoring: bool,
    pub(super) targets: Vec<ReplicationTarget>,
}

impl ReplicaState {
    /// Whether clients may change the partition.
    pub(super) fn is_open(&self) -> bool {
        self.role == ReplicaRole::Primary && self.frozen_since.is_none()
    }

    /// Stops replication to targets that do not stay, and wakes the waits for them. Returns the removed targets.
    pub(super) fn remove_targets(&mut self, stays: impl Fn(&ReplicationTarget) -> bool) -> Vec<ReplicationTarget> {
        let (staying, removed): (Vec<_>, Vec<_>) = std::mem::take(&mut self.targets).into_iter().partition(stays);
        self.targets = staying;
        removed.iter().for_each(|target| target.link.notify());
        removed
    }
}

/// The states of all partitions.
pub(super) struct ReplicaStates(Vec<Mutex<ReplicaState>>);

impl Default for ReplicaStates {
    fn default() -> Self {
        Self(PartitionId::all().map(|_| Mutex::default()).collect())
    }
}

impl ReplicaStates {
    pub(super) fn lock(&self, partition: PartitionId) -> MutexGuard<'_, ReplicaState> {
        self.0[partition.index()].lock()
    }
}
