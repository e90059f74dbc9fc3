//! Carries out the master's plans: the partition map, syncs, and checkpoints.
//!
//! A plan is complete: whatever it does not name has ended. Partitions change one after the other, each under its lock.
//! Only synchronous clients could notice, during a rewind: they wait until all partitions have been rewound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use flexor_model::MapEpoch;
use flexor_wire::master::v1 as master;
use thiserror::Error;
use tokio::time::Instant;

use super::replica_state::{ReplicaRole, ReplicaState, ReplicationTarget, SyncState};
use super::replicator::UnreachableBackups;
use super::restore::GenerationStarts;
use super::sequence::{PartitionGeneration, SequenceNumber, SyncId};
use super::{Server, ServerName};
use crate::checkpoint::CheckpointId;
use crate::hosted::HostedPartitions;
use crate::layout::Layout;
use crate::placement::{PARTITIONS, PartitionId};
use crate::spec::{ModelSpec, SpecError};

/// A plan that cannot be carried out.
#[derive(Debug, Error)]
pub enum PlanError {
    #[error("the master's model is invalid: {0}")]
    Model(#[from] SpecError),
    #[error("a partition map has {PARTITIONS} partitions, not {0}")]
    WrongPartitionCount(usize),
}

impl Server {
    /// Carries out a plan. A map older than the current one changes nothing.
    pub fn apply_plan(&self, plan: &master::ServerPlan) -> Result<(), PlanError> {
        let _one_at_a_time = self.0.plan_lock.lock();
        if plan.released {
            self.0.is_released.store(true, Ordering::Release);
            self.0.changed.notify_waiters();
        }
        let Some(map) = &plan.map else { return Ok(()) };
        if !map.model.is_empty() && self.0.hosted.get().is_none() {
            let hosted = Arc::new(HostedPartitions::new(Layout::new(ModelSpec::parse(&map.model)?)?));
            self.0.hosted.get_or_init(|| hosted);
            self.0.changed.notify_waiters();
        }
        self.list_checkpoints_if_ordered(plan);
        if map.epoch == 0 || map.epoch < self.epoch() {
            return Ok(());
        }
        if map.partitions.len() != PARTITIONS {
            return Err(PlanError::WrongPartitionCount(map.partitions.len()));
        }
        // Without a model there are no partitions; the master sends the plan again with the model.
        let Some(hosted) = self.0.hosted.get() else { return Ok(()) };
        let orders: BTreeMap<u32, &master::SyncOrder> =
            plan.syncs.iter().map(|order| (order.partition, order)).collect();
        self.start_rewind(map.rewind_epoch);
        let (mut starts, mut lost) = (GenerationStarts::default(), UnreachableBackups::default());
        for (id, replicas) in PartitionId::all().zip(&map.partitions) {
            let server = |index: Option<u32>| map.servers.get(index? as usize);
            let entry = MapEntry {
                primary: server(replicas.primary),
                backup: server(replicas.backup),
                generation: PartitionGeneration(replicas.generation),
                checkpoint: replicas.checkpoint.map(CheckpointId),
                primary_since: MapEpoch(replicas.primary_since),
                map_epoch: MapEpoch(map.epoch),
            };
            let frozen_since = self.0.replicas.lock(id).frozen_since;
            self.apply_entry(hosted, id, &entry, orders.get(&id.number()).copied(), (&mut starts, &mut lost));
            if let Some(since) = frozen_since
                && self.0.replicas.lock(id).frozen_since.is_none()
            {
                self.0.longest_freeze_us.fetch_max(since.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
            self.settle_queue(id);
        }
        self.report_unreachable(lost);
        self.finish_rewind(map.rewind_epoch);
        self.start_generations(hosted, starts);
        self.0.epoch.store(map.epoch, Ordering::Release);
        self.commit_steps();
        self.0.changed.notify_waiters();
        // A checkpoint has the partitions that this server is primary of by this map.
        self.apply_checkpoint_order(hosted, plan, map.rewind_epoch);
        Ok(())
    }

    fn apply_entry(
        &self,
        hosted: &Arc<HostedPartitions>,
        id: PartitionId,
        entry: &MapEntry<'_>,
        order: Option<&master::SyncOrder>,
        (starts, lost): (&mut GenerationStarts, &mut UnreachableBackups),
    ) {
        let is_me = |server: Option<&master::Server>| server.is_some_and(|server| ServerName::of(server) == self.0.me);
        let mut replica = self.0.replicas.lock(id);
        replica.primary_since = entry.primary_since;
        replica.map_epoch = entry.map_epoch;
        let role = match (is_me(entry.primary), is_me(entry.backup)) {
            (true, _) => ReplicaRole::Primary,
            (false, true) => ReplicaRole::Backup,
            (false, false) => ReplicaRole::Absent,
        };
        if role == ReplicaRole::Absent {
            if replica.role != ReplicaRole::Absent {
                hosted.remove(id);
                clear(&mut replica);
            }
            return;
        }
        let has_contents = hosted.holds(id) || replica.is_restoring;
        let is_current = has_contents && replica.last_applied.generation == entry.generation;
        if !is_current {
            hosted.remove(id);
            clear(&mut replica);
            replica.last_applied = SequenceNumber::start_of(entry.generation);
            replica.is_restoring = entry.checkpoint.is_some();
            if !replica.is_restoring {
                hosted.make([id]);
            }
            starts.add(id, entry.generation, entry.checkpoint);
        }
        replica.role = role;
        if role == ReplicaRole::Backup {
            // Another server is primary and replicates now.
            replica.remove_targets(|_| false);
            replica.frozen_since = None;
            drop(replica);
            self.catch_up(hosted, id);
            return;
        }
        self.update_targets(hosted, id, &mut replica, (entry, order), lost);
    }

    /// Updates the replication targets of a primary, and whether it is frozen.
    fn update_targets(
        &self,
        hosted: &Arc<HostedPartitions>,
        id: PartitionId,
        replica: &mut ReplicaState,
        (entry, order): (&MapEntry<'_>, Option<&master::SyncOrder>),
        unreachable: &mut UnreachableBackups,
    ) {
        let backup = entry.backup.map(ServerName::of);
        let ordered = order.and_then(|order| Some((ServerName::of(order.to.as_ref()?), SyncId(order.sync_id))));
        // A backup by an earlier map is removed and synced anew: in between it may have learnt of a map without it, and
        // have dropped its contents.
        let removed = replica.remove_targets(|target| {
            let is_backup = backup.as_ref() == Some(&target.server) && target.may_be_backup();
            let is_ordered =
                ordered.as_ref().is_some_and(|(to, sync_id)| *to == target.server && target.order == Some(*sync_id));
            is_backup || is_ordered
        });
        // A removed target that became primary learns that from the master, not from the cancellation.
        for target in removed {
            if let Some(sync_id) = target.sync_id {
                target.link.cancel_sync(id, sync_id);
            }
        }
        if let (Some(backup), Some(to)) = (&backup, entry.backup)
            && replica.targets.iter().all(|target| target.server != *backup)
        {
            // Both started from the same values, or were equal when this server took over: the backup is in sync.
            let (server, link, sync_state) = (backup.clone(), self.link(to), SyncState::InSync);
            replica.targets.push(ReplicationTarget { server, link, sync_id: None, order: None, sync_state });
        }
        match order {
            Some(order) => self.apply_sync_order(hosted, id, replica, order),
            None => replica.frozen_since = None,
        }
        // The master may not know: reports are lost when a session breaks.
        let is_lost = |target: &&ReplicationTarget| target.may_be_backup() && target.is_unreachable();
        let lost: Vec<_> = replica.targets.iter().filter(is_lost).map(|target| target.link.clone()).collect();
        for link in lost {
            self.drop_broken_targets(id, replica, &link, "the receiver is unreachable", unreachable);
        }
    }

    fn apply_sync_order(
        &self,
        hosted: &Arc<HostedPartitions>,
        id: PartitionId,
        replica: &mut ReplicaState,
        order: &master::SyncOrder,
    ) {
        let Some(to) = order.to.as_ref().map(ServerName::of) else { return };
        let sync_id = SyncId(order.sync_id);
        match replica.targets.iter_mut().find(|target| target.server == to) {
            None if replica.failed_sync < sync_id => self.start_sync(hosted, id, replica, order),
            None => {}
            // The receiver has everything already: only the report is missing.
            Some(target) if target.may_be_backup() && target.order != Some(sync_id) => {
                target.order = Some(sync_id);
                self.report_when_in_sync(id, replica, sync_id, master::sync_report::State::InSync);
            }
            Some(_) => {}
        }
        if order.freeze && replica.frozen_since.is_none() {
            replica.frozen_since = Some(Instant::now());
            if replica.targets.iter().any(|target| target.server == to && target.may_be_backup()) {
                self.report_when_in_sync(id, replica, sync_id, master::sync_report::State::Frozen);
            }
        } else if !order.freeze {
            replica.frozen_since = None;
        }
    }
}

/// A partition in the map, with its servers resolved.
struct MapEntry<'a> {
    primary: Option<&'a master::Server>,
    backup: Option<&'a master::Server>,
    generation: PartitionGeneration,
    checkpoint: Option<CheckpointId>,
    primary_since: MapEpoch,
    map_epoch: MapEpoch,
}

/// Resets the state of a partition that this server does not hold.
fn clear(replica: &mut ReplicaState) {
    replica.remove_targets(|_| false);
    replica.role = ReplicaRole::Absent;
    (replica.frozen_since, replica.is_restoring) = (None, false);
    replica.last_applied = SequenceNumber::default();
}
