//! Simulated servers and clients.

use flexor_model::Spans;

use super::*;

/// A replica of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SimulatedReplica {
    pub(super) generation: PartitionGeneration,
    /// Pushes, or steps, in the order in which they were applied.
    pub(super) applied: Vec<u64>,
}

/// A server with the last plan that it learnt.
#[derive(Debug, Clone, Default)]
pub(super) struct SimulatedServer {
    pub(super) map: PartitionMap,
    /// Epoch of the last rewind that it knows.
    rewind_epoch: MapEpoch,
    orders: Vec<SyncOrder>,
    checkpoint: Option<CheckpointOrder>,
    /// The last checkpoint that it wrote its part of. It carries out each order once.
    last_written: u64,
    latest: Option<u64>,
    pub(super) replicas: BTreeMap<Partition, SimulatedReplica>,
    /// Receivers that are in sync: it acknowledges no push before they have it.
    in_sync: BTreeMap<Partition, (u64, ServerId)>,
    /// The master does not reach it.
    pub(super) is_cut_off: bool,
}

impl SimulatedServer {
    /// Whether it accepts replication from the primary in `replicas`: it knows the map that appointed this primary, and no
    /// later primary.
    fn accepts(&self, partition: Partition, replicas: &PartitionReplicas) -> bool {
        self.map
            .replicas(partition)
            .is_some_and(|known| known.primary == replicas.primary && known.primary_since == replicas.primary_since)
    }
}

/// What the master publishes, all at once and only when it is durable.
#[derive(Debug, Clone, Default)]
pub(super) struct PublishedPlan {
    pub(super) map: PartitionMap,
    pub(super) rewind_epoch: MapEpoch,
    pub(super) steps: u64,
    pub(super) orders: BTreeMap<ServerId, Vec<SyncOrder>>,
    pub(super) checkpoints: BTreeMap<ServerId, CheckpointOrder>,
    /// The last checkpoint that the master knows.
    pub(super) latest: Option<u64>,
}

impl Simulation {
    /// A server learns the published plan and carries it out.
    pub(super) fn apply_plan(&mut self, id: &ServerId) {
        let plan = self.published.clone();
        let Some(server) = self.servers.get_mut(id) else { return };
        if server.is_cut_off || plan.map.epoch < server.map.epoch {
            return;
        }
        (server.map, server.rewind_epoch, server.latest) = (plan.map, plan.rewind_epoch, plan.latest);
        server.orders = plan.orders.get(id).cloned().unwrap_or_default();
        server.checkpoint = plan.checkpoints.get(id).cloned();
        let orders = server.orders.clone();
        server.in_sync.retain(|partition, (sync_id, _)| {
            orders.iter().any(|order| order.partition == *partition && order.sync_id == *sync_id)
        });
        let receiving: BTreeSet<Partition> =
            plan.orders.values().flatten().filter(|order| order.to == *id).map(|order| order.partition).collect();
        let mut started = Vec::new();
        let mut unreadable: BTreeMap<u64, Vec<Partition>> = BTreeMap::new();
        for (partition, replicas) in server.map.clone().iter() {
            if !replicas.is_kept_by(id) {
                if !receiving.contains(&partition) {
                    server.replicas.remove(&partition);
                }
                continue;
            }
            if server.replicas.get(&partition).is_some_and(|replica| replica.generation == replicas.generation) {
                continue;
            }
            let applied = match replicas.generation.source {
                Source::Initial => Vec::new(),
                Source::Checkpoint(number) if self.directory.contains(&number) => {
                    self.written[&number][&partition].clone()
                }
                Source::Checkpoint(number) => {
                    server.replicas.remove(&partition);
                    unreadable.entry(number).or_default().push(partition);
                    continue;
                }
            };
            started.push((partition, replicas.generation.number, applied.len() as u64));
            server.replicas.insert(partition, SimulatedReplica { generation: replicas.generation, applied });
        }
        for (number, partitions) in unreadable {
            self.report(id, |members, now, facts| {
                members.discard_damaged_checkpoint(id, number, &partitions, "gone", now, facts);
            });
        }
        self.report(id, |members, _, facts| members.record_generation_starts(started, facts));
    }

    /// A random sync order of a server.
    fn sync_order(&mut self, id: &ServerId) -> Option<SyncOrder> {
        let orders = &self.servers.get(id)?.orders;
        orders.get(self.dice.roll(orders.len().max(1) as u64) as usize).cloned()
    }

    /// A server continues with one of its syncs.
    pub(super) fn sync_partition(&mut self, id: &ServerId) {
        let Some(SyncOrder { partition, sync_id, to, freeze, .. }) = self.sync_order(id) else { return };
        let server = &self.servers[id];
        let Some(replicas) = server.map.replicas(partition).filter(|replicas| replicas.primary.as_ref() == Some(id))
        else {
            return;
        };
        let Some(replica) =
            server.replicas.get(&partition).filter(|replica| replica.generation == replicas.generation).cloned()
        else {
            return;
        };
        if server.in_sync.get(&partition).is_none_or(|(known, _)| *known != sync_id) {
            if !self.servers.get(&to).is_some_and(|receiver| receiver.accepts(partition, replicas)) {
                return;
            }
            self.servers.get_mut(&to).unwrap().replicas.insert(partition, replica);
            self.servers.get_mut(id).unwrap().in_sync.insert(partition, (sync_id, to));
        }
        if !freeze {
            self.report(id, |members, now, facts| members.complete_sync(id, partition, sync_id, now, facts));
        } else if self.replicate(id, partition) {
            self.report(id, |members, now, facts| members.confirm_freeze(id, partition, sync_id, now, facts));
        }
    }

    pub(super) fn fail_sync(&mut self, id: &ServerId) {
        if let Some(SyncOrder { partition, sync_id, .. }) = self.sync_order(id) {
            self.report(id, |members, now, facts| members.abort_sync(id, partition, sync_id, now, facts));
        }
    }

    pub(super) fn report_sync_progress(&mut self, id: &ServerId) {
        if let Some(SyncOrder { partition, sync_id, .. }) = self.sync_order(id) {
            self.report(id, |members, now, _| members.record_sync_progress(id, partition, sync_id, now));
        }
    }

    /// A primary loses its connection to a backup.
    pub(super) fn lose_backup(&mut self, id: &ServerId) {
        let first = Partition(self.dice.roll(u64::from(PARTITIONS)) as u32);
        let map = &self.servers[id].map;
        let replicas = map.replicas(first).filter(|replicas| replicas.primary.as_ref() == Some(id));
        let Some(backup) = replicas.and_then(|replicas| replicas.backup.clone()) else { return };
        let is_backup = |replicas: &PartitionReplicas| {
            replicas.primary.as_ref() == Some(id) && replicas.backup.as_ref() == Some(&backup)
        };
        let lost = map.iter().filter(|(partition, replicas)| *partition >= first && is_backup(replicas));
        let lost: Vec<Partition> = lost.map(|(partition, _)| partition).collect();
        self.report(id, |members, now, facts| members.drop_unreachable_backups(id, &lost, &backup, now, facts));
    }

    /// A server writes its part of a checkpoint, or the manifest.
    pub(super) fn write_part(&mut self, id: &ServerId) {
        let Some(server) = self.servers.get(id).filter(|server| !server.is_cut_off) else { return };
        let Some(CheckpointOrder { number, steps, seal }) = server.checkpoint.clone() else { return };
        let latest = server.latest;
        if let Some(seal) = seal {
            assert!(!seal.parts.is_empty() && self.written[&number].len() == PARTITIONS as usize);
            self.directory.insert(number);
            self.delete_old(latest);
            self.report(id, |members, now, facts| members.complete_checkpoint(id, number, now, facts));
            return;
        }
        if server.last_written >= number {
            return;
        }
        self.servers.get_mut(id).unwrap().last_written = number;
        let server = &self.servers[id];
        let mine = server.map.iter().filter(|(_, replicas)| replicas.primary.as_ref() == Some(id));
        let part = |(partition, replicas): (Partition, &PartitionReplicas)| {
            let replica =
                server.replicas.get(&partition).filter(|replica| replica.generation == replicas.generation)?;
            let is_in_it = |applied: &&u64| steps.is_none_or(|steps| **applied <= steps);
            let applied: Vec<u64> = replica.applied.iter().filter(is_in_it).copied().collect();
            steps.is_none_or(|steps| applied.len() as u64 == steps).then_some((partition, applied))
        };
        let Some(part) = mine.map(part).collect::<Option<Vec<_>>>() else {
            let cause = Cause::new(Reason::CheckpointFailed, "the step is not there");
            return self.report(id, |members, now, facts| members.fail_checkpoint(number, cause, now, facts));
        };
        self.written.entry(number).or_default().extend(part);
        if self.dice.roll(2) == 0 {
            self.report(id, |members, _, _| members.record_snapshot_held(id, number));
        }
        self.report(id, |members, now, facts| members.record_part(id, number, "part", now, facts));
    }

    /// Deletes all checkpoints but the last ones and the one that the master knows.
    fn delete_old(&mut self, known: Option<u64>) {
        let Some(keep) = self.settings.keep.filter(|keep| *keep > 0) else { return };
        let unknown = |number: &u64| known.is_some_and(|known| *number > known);
        if self.directory.iter().rev().skip(1).any(unknown) {
            return;
        }
        let old: Vec<u64> = self.directory.iter().rev().skip(keep).copied().collect();
        for number in old.into_iter().filter(|number| known.is_none_or(|known| *number < known)) {
            self.directory.remove(&number);
        }
    }

    /// Replicates to the backup and to in-sync receivers; returns whether all have everything.
    fn replicate(&mut self, id: &ServerId, partition: Partition) -> bool {
        let server = &self.servers[id];
        let replica = server.replicas[&partition].clone();
        let Some(replicas) = server.map.replicas(partition).cloned() else { return false };
        let in_sync = server.in_sync.get(&partition).map(|(_, to)| to.clone());
        let targets: BTreeSet<ServerId> = replicas.backup.clone().into_iter().chain(in_sync).collect();
        for target in targets {
            let other = self.servers.get_mut(&target).filter(|other| other.accepts(partition, &replicas));
            let Some(other) = other else { return false };
            let known = other
                .replicas
                .entry(partition)
                .or_insert_with(|| SimulatedReplica { generation: replica.generation, applied: Vec::new() });
            if known.generation > replica.generation {
                return false;
            }
            if known.generation == replica.generation && known.applied.starts_with(&replica.applied) {
                // It has everything. It may have more from a later primary that this one does not know.
                continue;
            }
            assert!(
                known.generation < replica.generation || replica.applied.starts_with(&known.applied),
                "{target} has something of {partition} that its primary {id} has not"
            );
            *known = replica.clone();
        }
        true
    }

    /// A client pushes: to the server that it believes to be primary, or in synchronous training to all of them.
    pub(super) fn push(&mut self, id: &ServerId) {
        match self.settings.mode {
            Mode::Async => {
                let partition = Partition(self.dice.roll(u64::from(PARTITIONS)) as u32);
                // Sometimes a repeated push, which may not have been acknowledged.
                let again = self.dice.roll(4) == 0;
                let push = if again { self.pushes.saturating_sub(self.dice.roll(4)) } else { self.pushes + 1 };
                self.apply(id, partition, push);
            }
            Mode::Sync => self.push_step(),
        }
    }

    /// Pushes the next step to all primaries. The step commits when all have acknowledged it.
    fn push_step(&mut self) {
        let (rewind_epoch, step) = (self.published.rewind_epoch, self.published.steps + 1);
        if (self.step_acknowledged.0, self.step_acknowledged.1) != (rewind_epoch, step) {
            self.step_acknowledged = (rewind_epoch, step, BTreeSet::new());
        }
        for (partition, replicas) in self.published.map.clone().iter() {
            let Some(primary) = &replicas.primary else { continue };
            let knows_rewind = self.servers.get(primary).is_some_and(|server| server.rewind_epoch == rewind_epoch);
            if self.dice.roll(8) > 0 && knows_rewind && self.apply(primary, partition, step) {
                self.step_acknowledged.2.insert(partition);
            }
        }
        // A step from before a rewind does not count, nor does a step that is committed already.
        let is_next = self.members.rewind_epoch() == rewind_epoch && self.journal.steps() + 1 == step;
        if is_next && self.step_acknowledged.2.len() == PARTITIONS as usize {
            self.journal.commit_step();
        }
    }

    /// A server applies a push; returns whether it acknowledges.
    fn apply(&mut self, id: &ServerId, partition: Partition, push: u64) -> bool {
        let Some(server) = self.servers.get_mut(id) else { return false };
        let replicas = server.map.replicas(partition).filter(|replicas| replicas.primary.as_ref() == Some(id));
        let is_frozen = server.orders.iter().any(|order| order.partition == partition && order.freeze);
        let Some(generation) = replicas.map(|replicas| replicas.generation).filter(|_| !is_frozen) else {
            return false;
        };
        // A partition that is being restored is not here yet.
        let Some(replica) = server.replicas.get_mut(&partition).filter(|replica| replica.generation == generation)
        else {
            return false;
        };
        if !replica.applied.contains(&push) {
            if self.settings.mode == Mode::Sync && replica.applied.last().copied().unwrap_or(0) + 1 != push {
                return false;
            }
            replica.applied.push(push);
        }
        self.pushes = self.pushes.max(push);
        // The position of the push: its version, or its step in synchronous training.
        let version = replica.applied.iter().position(|applied| *applied == push).map_or(0, |at| at as u64 + 1);
        let version = Spans::from(vec![(version, version + 1)]);
        let is_acknowledged = self.replicate(id, partition);
        if is_acknowledged {
            self.acknowledged.entry(partition).or_default().insert((generation, push));
            self.act(|members, _, _, facts| {
                members.record_acknowledged([(partition, generation.number, version)], facts);
            });
        }
        is_acknowledged
    }
}
