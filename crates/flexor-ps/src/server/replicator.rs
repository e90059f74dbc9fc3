//! The primary's side of replication: fills other servers and keeps them in sync.
//!
//! A sync sends the partition as of its start, piece by piece, while training goes on; later changes follow on the same
//! link. Syncs on one link take turns, and pause between turns while training goes on. Once the receiver has everything,
//! the primary acknowledges a client only when the receiver has the change, and reports the sync as complete. On the
//! master's order the partition freezes.
//!
//! Hand-over relies on one rule: the primary reports "in sync" or "frozen" only when *every* target has every applied
//! change ([`Server::report_when_in_sync`]). So a new primary finds the other replica at its own sequence number, and
//! continues the numbering from there. The backup's side is [`super::backup`].

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use flexor_model::MapEpoch;
use flexor_wire::master::v1 as master;
use flexor_wire::ps::v1 as wire;
use tokio::time::Instant;

use super::replica_state::{ReplicaState, ReplicationTarget, SyncState};
use super::replication_link::{ReplicationLink, WaitFor};
use super::sequence::{SequenceNumber, SyncId};
use super::{Server, ServerName};
use crate::hosted::HostedPartitions;
use crate::pace::Pace;
use crate::partition::PartitionExport;
use crate::placement::PartitionId;
use crate::snapshot::Budget;

/// Bytes that training may change in a partition while it syncs. Beyond that the sync fails, and the master orders another.
const CHANGE_BUDGET: usize = 256 << 20;
/// Bytes sent in one turn. Changes for the same receiver wait behind them.
const TURN_BYTES: usize = 512 << 10;
/// The longest pause after a turn, so that a slow network or processor does not stretch the pauses as well.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

impl Server {
    /// Starts a sync; the caller holds the replica's lock.
    pub(super) fn start_sync(
        &self,
        hosted: &Arc<HostedPartitions>,
        id: PartitionId,
        replica: &mut ReplicaState,
        order: &master::SyncOrder,
    ) {
        let Some(to) = &order.to else { return };
        let sync_id = SyncId(order.sync_id);
        let link = self.link(to);
        let snapshot = hosted.next_snapshot();
        let started = hosted.with(id, |partition| partition.start_export(snapshot, Budget::new(CHANGE_BUDGET)));
        let Ok(export) = started else {
            // The partition is still being read from a checkpoint.
            return self.fail_sync(id, replica, sync_id, "the partition is not restored yet");
        };
        let (server, sync_state) = (ServerName::of(to), SyncState::Syncing);
        let (link_of_target, sync, order) = (link.clone(), Some(sync_id), Some(sync_id));
        replica.targets.push(ReplicationTarget { server, link: link_of_target, sync_id: sync, order, sync_state });
        if link.is_broken() {
            // The link broke before this sync was registered on it.
            let mut lost = UnreachableBackups::default();
            self.drop_broken_targets(id, replica, &link, "the receiver is unreachable", &mut lost);
            return self.report_unreachable(lost);
        }
        let sender = SyncSender {
            server: self.clone(),
            hosted: hosted.clone(),
            link,
            id,
            sync_id,
            sequence: replica.last_applied,
            map_epoch: replica.map_epoch,
        };
        tokio::spawn(sender.run(export));
    }

    /// The receiver has everything. From now on acknowledgements wait for it, and the master gets a report once it has
    /// everything sent so far.
    pub(super) fn complete_sync(&self, link: &Arc<ReplicationLink>, completed: &wire::SyncCompleted) {
        let Some(id) = PartitionId::of_number(completed.partition) else { return };
        let mut replica = self.0.replicas.lock(id);
        let mut on_link = replica.targets.iter_mut().filter(|target| Arc::ptr_eq(&target.link, link));
        let sync_id = SyncId(completed.sync_id);
        let Some(target) = on_link.find(|target| target.sync_id == Some(sync_id)) else { return };
        if target.sync_state == SyncState::Syncing {
            target.sync_state = SyncState::InSync;
        }
        self.report_when_in_sync(id, &replica, sync_id, master::sync_report::State::InSync);
    }

    /// Reports a sync once its receiver and every other target have everything applied so far. A new primary could not
    /// send the others what only the old one had.
    pub(super) fn report_when_in_sync(
        &self,
        id: PartitionId,
        replica: &ReplicaState,
        sync_id: SyncId,
        state: master::sync_report::State,
    ) {
        let backups = replica.targets.iter().filter(|target| target.may_be_backup());
        let links: Vec<(Arc<ReplicationLink>, u64)> =
            backups.map(|target| (target.link.clone(), target.link.last_id())).collect();
        let server = self.clone();
        tokio::spawn(async move {
            let is_ordered = || server.0.replicas.lock(id).targets.iter().any(|target| target.order == Some(sync_id));
            for (link, last_id) in links {
                let condition = || if is_ordered() { server.waits_for(id, &link) } else { WaitFor::Nothing };
                link.wait_until_applied(last_id, condition).await;
            }
            if is_ordered() {
                server.report_sync(id, sync_id, state, String::new());
            }
        });
    }

    /// The receiver rejects a sync.
    pub(super) fn fail_rejected_sync(&self, link: &Arc<ReplicationLink>, rejected: &wire::SyncRejected) {
        let Some(id) = PartitionId::of_number(rejected.partition) else { return };
        let mut replica = self.0.replicas.lock(id);
        let sync_id = SyncId(rejected.sync_id);
        replica.remove_targets(|target| target.sync_id != Some(sync_id) || !Arc::ptr_eq(&target.link, link));
        self.fail_sync(id, &mut replica, sync_id, &rejected.detail);
    }

    /// Reports a failed sync. The same order does not start it again.
    fn fail_sync(&self, id: PartitionId, replica: &mut ReplicaState, sync_id: SyncId, why: &str) {
        replica.failed_sync = replica.failed_sync.max(sync_id);
        self.report_sync(id, sync_id, master::sync_report::State::Failed, why.to_owned());
    }

    /// Cancels syncs whose partition changes faster than the link carries. The master orders new ones.
    pub(super) fn cancel_flooded_syncs(&self, id: PartitionId, replica: &mut ReplicaState) {
        let is_flooded = |target: &ReplicationTarget| target.sync_state == SyncState::Syncing && target.link.is_full();
        if !replica.targets.iter().any(is_flooded) {
            return;
        }
        for target in replica.remove_targets(|target| !is_flooded(target)) {
            if let Some(sync_id) = target.sync_id {
                target.link.cancel_sync(id, sync_id);
                self.fail_sync(id, replica, sync_id, "training changes more than can be sent");
            }
        }
    }

    /// The receiver rejects changes, because it knows another primary for these partitions. The master decides whether
    /// that is so.
    pub(super) fn mark_lagging(&self, link: &Arc<ReplicationLink>, partitions: &[u32]) {
        let mut lost = UnreachableBackups::default();
        for id in partitions.iter().copied().filter_map(PartitionId::of_number) {
            let mut replica = self.0.replicas.lock(id);
            let on_link = replica.targets.iter_mut().filter(|target| Arc::ptr_eq(&target.link, link));
            for target in on_link.filter(|target| target.may_be_backup()) {
                target.sync_state = SyncState::Lagging;
            }
            self.drop_broken_targets(id, &mut replica, link, "the receiver knows another primary", &mut lost);
        }
        self.report_unreachable(lost);
    }

    /// Reports all backups on a broken link. The master decides about them.
    pub(super) fn report_broken_link(&self, link: &Arc<ReplicationLink>, why: &str) {
        let mut lost = UnreachableBackups::default();
        for id in PartitionId::all() {
            let mut replica = self.0.replicas.lock(id);
            self.drop_broken_targets(id, &mut replica, link, why, &mut lost);
        }
        self.report_unreachable(lost);
        link.notify();
    }

    /// Handles the targets of one partition on a broken link: syncs fail, and backups are added to `unreachable`.
    pub(super) fn drop_broken_targets(
        &self,
        id: PartitionId,
        replica: &mut ReplicaState,
        link: &Arc<ReplicationLink>,
        why: &str,
        unreachable: &mut UnreachableBackups,
    ) {
        let is_on_link = |target: &&ReplicationTarget| Arc::ptr_eq(&target.link, link);
        for backup in replica.targets.iter().filter(is_on_link).filter(|target| target.may_be_backup()) {
            unreachable.0.entry(backup.server.clone()).or_default().push(id.number());
        }
        let orders: Vec<SyncId> = replica.targets.iter().filter(is_on_link).filter_map(|target| target.order).collect();
        orders.into_iter().for_each(|sync_id| self.fail_sync(id, replica, sync_id, why));
        // The map may name a target that was in sync as the backup. It stays until the master decides, and no client is
        // acknowledged before.
        replica.targets.retain(|target| target.may_be_backup() || !Arc::ptr_eq(&target.link, link));
    }

    /// Reports unreachable backups, once per server.
    pub(super) fn report_unreachable(&self, UnreachableBackups(lost): UnreachableBackups) {
        for (ServerName { name, incarnation }, partitions) in lost {
            let server = Some(master::Node { name, incarnation });
            let report = master::BackupUnreachable { partitions, server };
            self.report(master::from_server::Message::Unreachable(report));
        }
    }

    fn report_sync(&self, id: PartitionId, sync_id: SyncId, state: master::sync_report::State, detail: String) {
        let report = master::SyncReport { partition: id.number(), sync_id: sync_id.0, state: state.into(), detail };
        self.report(master::from_server::Message::Sync(report));
    }
}

/// Partitions whose backups are unreachable, by the server that keeps them.
#[derive(Default)]
pub(super) struct UnreachableBackups(BTreeMap<ServerName, Vec<u32>>);

/// Sends the contents of a partition to another server.
struct SyncSender {
    server: Server,
    hosted: Arc<HostedPartitions>,
    link: Arc<ReplicationLink>,
    id: PartitionId,
    sync_id: SyncId,
    /// The last change that the contents include.
    sequence: SequenceNumber,
    /// Epoch of the map that makes this server primary.
    map_epoch: MapEpoch,
}

impl SyncSender {
    async fn run(self, mut export: PartitionExport) {
        let sent = self.send(&mut export).await;
        let _ = self.hosted.with(self.id, |partition| partition.end_export(&export));
        if let Err(why) = sent {
            self.server.report_sync(self.id, self.sync_id, master::sync_report::State::Failed, why);
        }
    }

    async fn send(&self, export: &mut PartitionExport) -> Result<(), String> {
        let mut pace = Pace::new(&self.hosted, LONGEST_PAUSE);
        loop {
            let _sender = self.link.lock_sender().await;
            let began = Instant::now();
            let progress = self.send_turn(export).await?;
            if progress.is_continue() {
                let state = master::sync_report::State::Syncing;
                self.server.report_sync(self.id, self.sync_id, state, String::new());
            }
            // The time that the receiver takes is part of the turn.
            self.link.wait_for_pieces().await;
            tokio::time::sleep(pace.pause_after(began.elapsed(), &self.hosted)).await;
            if progress.is_break() {
                return Ok(());
            }
        }
    }

    /// Sends the pieces of one turn, or all that are left.
    async fn send_turn(&self, export: &mut PartitionExport) -> Result<ControlFlow<()>, String> {
        let mut sent = 0;
        while sent < TURN_BYTES {
            let is_receiver = |target: &ReplicationTarget| target.sync_id == Some(self.sync_id);
            if !self.server.0.replicas.lock(self.id).targets.iter().any(is_receiver) {
                return Ok(ControlFlow::Break(()));
            }
            let next = self.hosted.with(self.id, |partition| partition.next_piece(export));
            let next = next.map_err(|error| error.to_string())?.map_err(|lost| lost.to_string())?;
            let last = next.is_none();
            let piece = next.map(|piece| piece.to_bytes()).unwrap_or_default();
            sent += piece.len();
            let piece = wire::SyncPiece {
                partition: self.id.number(),
                sync_id: self.sync_id.0,
                generation: self.sequence.generation.0,
                sequence: self.sequence.number,
                map_epoch: self.map_epoch.0,
                piece: piece.into(),
                last,
            };
            if !self.link.send_piece(piece).await {
                return Err("the receiver is unreachable".to_owned());
            }
            if last {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
