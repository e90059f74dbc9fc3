//! Transfers: move a partition to another server while training goes on.
//!
//! The primary sends the partition's contents and forwards every update that it applies meanwhile. Once the receiver is in
//! sync, it either becomes the backup, or the primary freezes and a new map makes the receiver primary. Every failure
//! before that map aborts the transfer: the primary no longer finds it in its orders and carries on. Transfers are
//! therefore not journalled; a restarted master has none.
//!
//! Transfers of primaries form a group: they wait for each other, freeze together and commit in one map. A batch has
//! gradients for nearly every partition, so training pauses whether one partition is frozen or sixteen. A group costs one
//! pause.
//!
//! A missing backup comes before everything else: no primary moves until every partition has its replicas.

use std::time::Duration;

use flexor_model::Reason;

use super::balance::{self, TargetReplicas};
use super::fact::Fact;
use super::partition_map::{Partition, PartitionReplicas};
use super::server::ServerId;
use super::{Cause, PsMembership};

/// Concurrent transfers. A partition in transfer takes memory on both servers.
const MAX_CONCURRENT: usize = 16;
/// How long a primary has to confirm a freeze.
const FREEZE_LIMIT: Duration = Duration::from_secs(2);
/// Pause before a partition is transferred again after a failure.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// A transfer in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transfer {
    /// Reports with another id concern another transfer.
    pub(super) sync_id: u64,
    pub(super) from: ServerId,
    pub(super) to: ServerId,
    pub(super) target_role: TargetRole,
    pub(super) phase: TransferPhase,
    pub(super) last_progress: Duration,
}

/// The role of the receiver after the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetRole {
    Primary,
    Backup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferPhase {
    /// The primary sends contents and forwards updates.
    Syncing,
    /// The receiver has every acknowledged update, and gets every further one. It waits for its group.
    InSync,
    /// The primary has orders to stop.
    Freezing,
    /// The primary has stopped, and the receiver has everything.
    Frozen,
}

impl PsMembership {
    /// The receiver has taken in another part.
    pub fn record_sync_progress(&mut self, from: &ServerId, partition: Partition, sync_id: u64, now: Duration) {
        self.clock.advance(now);
        let now = self.clock.now();
        if let Some(transfer) = self.transfer_mut(from, partition, sync_id) {
            transfer.last_progress = now;
            self.record_transfer_progress();
        }
    }

    /// The receiver is in sync: from now on the primary acknowledges an update only when the receiver has it.
    pub fn complete_sync(
        &mut self,
        from: &ServerId,
        partition: Partition,
        sync_id: u64,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        let now = self.clock.now();
        if let Some(transfer) = self.transfer_mut(from, partition, sync_id)
            && transfer.phase == TransferPhase::Syncing
        {
            (transfer.phase, transfer.last_progress) = (TransferPhase::InSync, now);
        }
        self.reconcile(facts);
    }

    /// The primary has stopped, and the receiver has everything.
    pub fn confirm_freeze(
        &mut self,
        from: &ServerId,
        partition: Partition,
        sync_id: u64,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        if let Some(transfer) = self.transfer_mut(from, partition, sync_id)
            && transfer.phase == TransferPhase::Freezing
        {
            transfer.phase = TransferPhase::Frozen;
        }
        self.reconcile(facts);
    }

    /// The primary cannot complete the sync.
    pub fn abort_sync(
        &mut self,
        from: &ServerId,
        partition: Partition,
        sync_id: u64,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        if self.transfer_mut(from, partition, sync_id).is_some() {
            self.abort_transfer(partition);
        }
        self.reconcile(facts);
    }

    /// Target servers of every partition, counting running transfers as completed; empty while there is no server.
    pub(super) fn targets(&self) -> Vec<TargetReplicas> {
        let servers = self.registered_servers();
        if servers.is_empty() {
            return Vec::new();
        }
        let mut prospect = self.map.clone();
        for (partition, transfer) in &self.transfers {
            if let Some(replicas) = prospect.replicas_mut(*partition) {
                *replicas = transfer.completed(replicas, self.settings.replication_factor);
            }
        }
        balance::targets(&prospect, &servers, self.settings.replication_factor)
    }

    /// The group of transfers that appoint a new primary.
    fn primary_transfers(&self) -> impl Iterator<Item = &Transfer> {
        self.transfers.values().filter(|transfer| transfer.target_role == TargetRole::Primary)
    }

    fn transfer_mut(&mut self, from: &ServerId, partition: Partition, sync_id: u64) -> Option<&mut Transfer> {
        self.transfers.get_mut(&partition).filter(|transfer| transfer.sync_id == sync_id && transfer.from == *from)
    }

    fn abort_transfer(&mut self, partition: Partition) {
        self.transfers.remove(&partition);
        self.retry_after.insert(partition, self.clock.now() + RETRY_DELAY);
    }

    /// Aborts transfers that cannot complete or have no purpose any more.
    ///
    /// A started transfer of a backup completes even if another target would be chosen by now. This makes rebalancing
    /// terminate: running transfers count as completed, so each start fills a gap or evens the spread, and so does each
    /// abort of a transfer whose partition is well placed already.
    pub(super) fn abort_stale_transfers(&mut self) {
        let (targets, candidates) = (self.targets(), self.registered_servers());
        let mut timed_out = Vec::new();
        let (now, sync_limit) = (self.clock.now(), self.settings.sync_limit);
        let (map, registered) = (&self.map, &self.registered);
        self.transfers.retain(|partition, transfer| {
            let limit = match transfer.phase {
                TransferPhase::Syncing => Some(sync_limit),
                TransferPhase::Freezing => Some(FREEZE_LIMIT),
                // They wait for transfers that have limits.
                TransferPhase::InSync | TransferPhase::Frozen => None,
            };
            if limit.is_some_and(|limit| now >= transfer.last_progress + limit) {
                timed_out.push(*partition);
                return false;
            }
            let (Some(replicas), Some(target)) = (map.replicas(*partition), targets.get(partition.0 as usize)) else {
                return false;
            };
            let is_from_primary = replicas.primary.as_ref() == Some(&transfer.from);
            let is_connected = |server: &ServerId| {
                let state = registered.get(&server.name).filter(|state| state.incarnation == server.incarnation);
                state.is_some_and(|state| state.reconnect_by.is_none())
            };
            // A disconnected receiver may be lost, so it gets nothing before it reconnects. A sync from a disconnected
            // primary is aborted; a receiver that is in sync takes over if the primary does not reconnect.
            let is_reachable = is_connected(&transfer.to)
                && (transfer.phase != TransferPhase::Syncing || is_connected(&transfer.from));
            let is_needed = match transfer.target_role {
                TargetRole::Primary => target.primary == transfer.to,
                TargetRole::Backup => {
                    let is_placed = replicas.backup.is_some()
                        && (replicas.backup == target.backup || replicas.is_kept_by(&transfer.to));
                    candidates.contains(&transfer.to) && !is_placed
                }
            };
            is_from_primary && is_reachable && is_needed
        });
        for partition in timed_out {
            self.retry_after.insert(partition, self.clock.now() + RETRY_DELAY);
        }
    }

    /// Starts transfers that bring the map closer to its targets.
    pub(super) fn start_transfers(&mut self) {
        if self.checkpoint_attempt.is_some() {
            return;
        }
        self.retry_after.retain(|_, until| *until > self.clock.now());
        let targets = self.targets();
        let mut candidates: Vec<_> = (0..).map(Partition).zip(self.map.partitions.iter().zip(&targets)).collect();
        // Partitions without a backup come first.
        candidates.sort_by_key(|(_, (replicas, _))| replicas.backup.is_some());
        // A group whose first member is in sync takes no new members.
        let is_group_closed = self.primary_transfers().any(|transfer| transfer.phase != TransferPhase::Syncing);
        let has_no_backup =
            |partition: &Partition| self.map.replicas(*partition).is_some_and(|replicas| replicas.backup.is_none());
        let fills_gap = |(partition, transfer): (&Partition, &Transfer)| {
            transfer.target_role == TargetRole::Backup && has_no_backup(partition)
        };
        let mut has_gap_transfers = self.transfers.iter().any(fills_gap);
        let mut started = Vec::new();
        for (partition, (replicas, target)) in candidates {
            if self.transfers.len() + started.len() >= MAX_CONCURRENT {
                break;
            }
            let is_busy = self.transfers.contains_key(&partition) || self.retry_after.contains_key(&partition);
            if let Some(step) = next_step(replicas, target).filter(|_| !is_busy)
                && !((is_group_closed || has_gap_transfers) && step.target_role == TargetRole::Primary)
                && self.is_connected(&step.from)
                && self.is_connected(&step.to)
            {
                has_gap_transfers |= step.target_role == TargetRole::Backup && replicas.backup.is_none();
                started.push((partition, step));
            }
        }
        for (partition, TransferStep { from, to, target_role, phase }) in started {
            self.last_sync_id += 1;
            let (sync_id, last_progress) = (self.last_sync_id, self.clock.now());
            self.transfers.insert(partition, Transfer { sync_id, from, to, target_role, phase, last_progress });
        }
    }

    /// Drops backups on leaving servers where no other server can keep them and the primary is connected. In the grace
    /// period after a restart of the master, other servers may still reconnect.
    pub(super) fn drop_leaving_backups(&mut self, facts: &mut Vec<Fact>) {
        if self.clock.now() < self.restart_grace_until {
            return;
        }
        let targets = self.targets();
        let is_leaving = |replicas: &PartitionReplicas| {
            let has_primary = replicas.primary.as_ref().is_some_and(|primary| self.is_connected(primary));
            has_primary && replicas.backup.as_ref().is_some_and(|backup| self.is_leaving(&backup.name))
        };
        let has_no_target =
            |partition: Partition| targets.get(partition.0 as usize).is_some_and(|target| target.backup.is_none());
        let is_idle = |partition: Partition| !self.transfers.contains_key(&partition);
        let dropped = self
            .map
            .iter()
            .filter(|(partition, replicas)| is_leaving(replicas) && has_no_target(*partition) && is_idle(*partition));
        let changed: Vec<_> = dropped
            .map(|(partition, replicas)| (partition, PartitionReplicas { backup: None, ..replicas.clone() }))
            .collect();
        if !changed.is_empty() {
            let detail = format!(
                "{} backups are dropped: their server leaves, and there is no other server to keep them",
                changed.len()
            );
            self.publish_map(changed, Cause::new(Reason::PartitionsMoved, detail), facts);
        }
    }

    /// Moves every transfer that is ready to its next phase. Completed transfers make a new map; returns whether there
    /// were any.
    pub(super) fn advance_transfers(&mut self, facts: &mut Vec<Fact>) -> bool {
        let now = self.clock.now();
        let is_group_in_sync = self.primary_transfers().all(|transfer| transfer.phase != TransferPhase::Syncing);
        let is_group_frozen = self.primary_transfers().all(|transfer| transfer.phase == TransferPhase::Frozen);
        let mut changed = Vec::new();
        for (partition, transfer) in &mut self.transfers {
            let Some(replicas) = self.map.replicas(*partition) else { continue };
            let is_done = match (transfer.target_role, transfer.phase) {
                (TargetRole::Primary, TransferPhase::InSync) if is_group_in_sync => {
                    (transfer.phase, transfer.last_progress) = (TransferPhase::Freezing, now);
                    false
                }
                (TargetRole::Primary, phase) => phase == TransferPhase::Frozen && is_group_frozen,
                (TargetRole::Backup, phase) => phase == TransferPhase::InSync,
            };
            if is_done {
                changed.push((*partition, transfer.completed(replicas, self.settings.replication_factor)));
            }
        }
        if changed.is_empty() {
            return false;
        }
        for (partition, _) in &changed {
            self.transfers.remove(partition);
        }
        let cause =
            Cause::new(Reason::PartitionsMoved, format!("{} partitions are on their target servers", changed.len()));
        self.publish_map(changed, cause, facts);
        true
    }
}

impl Transfer {
    /// The replicas of the partition once the transfer is completed.
    fn completed(&self, replicas: &PartitionReplicas, replication_factor: u32) -> PartitionReplicas {
        match self.target_role {
            TargetRole::Backup => PartitionReplicas { backup: Some(self.to.clone()), ..replicas.clone() },
            TargetRole::Primary => {
                let backup = replicas.backup_beside(&self.to).filter(|_| replication_factor > 1).cloned();
                PartitionReplicas { primary: Some(self.to.clone()), backup, ..replicas.clone() }
            }
        }
    }
}

/// A transfer to start.
struct TransferStep {
    from: ServerId,
    to: ServerId,
    target_role: TargetRole,
    phase: TransferPhase,
}

/// The first transfer for a partition that is not on its target servers.
fn next_step(replicas: &PartitionReplicas, target: &TargetReplicas) -> Option<TransferStep> {
    let from = replicas.primary.clone()?;
    let syncing = TransferPhase::Syncing;
    if from != target.primary && replicas.backup.is_none() && target.backup.is_some() {
        // First a backup, on the target primary. It is then in sync and need only be promoted.
        let to = target.primary.clone();
        return Some(TransferStep { from, to, target_role: TargetRole::Backup, phase: syncing });
    }
    if from != target.primary {
        let is_backup = replicas.backup.as_ref() == Some(&target.primary);
        let phase = if is_backup { TransferPhase::InSync } else { syncing };
        return Some(TransferStep { from, to: target.primary.clone(), target_role: TargetRole::Primary, phase });
    }
    let to = target.backup.clone().filter(|backup| replicas.backup.as_ref() != Some(backup))?;
    Some(TransferStep { from, to, target_role: TargetRole::Backup, phase: syncing })
}
