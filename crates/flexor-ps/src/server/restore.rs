//! Starts new generations of partitions: reads them from a checkpoint on a file thread and installs them when complete.
//!
//! Until then the server does not have the partitions, and clients retry. The map may change meanwhile, so a partition is
//! installed only if the server still restores the same generation.
//!
//! The server retries a failing storage for a while. Then it reports to the master, and reads nothing more until a plan
//! decides which server restores.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flexor_wire::master::v1 as master;

use super::Server;
use super::file_thread::run_on_file_thread;
use super::sequence::PartitionGeneration;
use crate::checkpoint::{Checkpoint, CheckpointError, CheckpointId, DirectoryStorage, list};
use crate::hosted::HostedPartitions;
use crate::partition::Partition;
use crate::placement::PartitionId;

/// The generation in which a job starts.
const FIRST_GENERATION: PartitionGeneration = PartitionGeneration(1);

/// Attempts to use a failing storage.
pub(super) const ATTEMPTS: u32 = 5;
/// Pause between two attempts.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// How often a failing storage is reported. The next session does not repeat old reports: the master may have decided.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Partitions that start a generation by a plan, with the checkpoint to read; none: the initial values.
#[derive(Debug, Default)]
pub(super) struct GenerationStarts(Vec<(PartitionId, PartitionGeneration, Option<CheckpointId>)>);

impl GenerationStarts {
    pub(super) fn add(&mut self, id: PartitionId, generation: PartitionGeneration, checkpoint: Option<CheckpointId>) {
        self.0.push((id, generation, checkpoint));
    }
}

impl Server {
    /// Starts generations, and reports the versions that they start with.
    pub(super) fn start_generations(&self, hosted: &Arc<HostedPartitions>, starts: GenerationStarts) {
        let mut by_checkpoint: BTreeMap<CheckpointId, Vec<(PartitionId, PartitionGeneration)>> = BTreeMap::new();
        let mut restored_partitions = Vec::new();
        for (id, generation, checkpoint) in starts.0 {
            match checkpoint {
                Some(checkpoint) => by_checkpoint.entry(checkpoint).or_default().push((id, generation)),
                // The first generation cannot have lost updates.
                None if generation > FIRST_GENERATION => {
                    restored_partitions.push(restored_partition(id, generation, 0));
                }
                None => {}
            }
        }
        self.report_restored(restored_partitions);
        for (checkpoint, partitions) in by_checkpoint {
            tokio::spawn(self.clone().restore(Arc::clone(hosted), checkpoint, partitions));
        }
    }

    async fn restore(
        self,
        hosted: Arc<HostedPartitions>,
        checkpoint: CheckpointId,
        partitions: Vec<(PartitionId, PartitionGeneration)>,
    ) {
        let mut attempt = 1;
        let error = loop {
            let (server, hosted, restoring) = (self.clone(), Arc::clone(&hosted), self.still_restoring(&partitions));
            let read = move || {
                let restored = server.read(&hosted, checkpoint, &restoring)?;
                server.install_restored(&hosted, checkpoint, &restoring, restored);
                Ok(())
            };
            let Some(Err(error)) = run_on_file_thread("read", &checkpoint.directory(), read).await else { return };
            if !error.is_transient() || attempt == ATTEMPTS {
                break error;
            }
            tracing::warn!(%checkpoint, %error, "cannot read a checkpoint; will try again");
            tokio::time::sleep(RETRY_PAUSE).await;
            attempt += 1;
        };
        tracing::error!(%checkpoint, %error, "cannot read a checkpoint");
        let (why, damaged) = (error.to_string(), !error.is_transient());
        let report =
            master::RestoreReport { unreadable: Some(checkpoint.0), why, damaged, ..master::RestoreReport::default() };
        loop {
            let restoring = self.still_restoring(&partitions);
            if restoring.is_empty() {
                return;
            }
            let partitions = restoring.iter().map(|(id, generation)| restored_partition(*id, *generation, 0)).collect();
            let report = master::RestoreReport { partitions, ..report.clone() };
            self.report(master::from_server::Message::Restore(report));
            if damaged {
                return;
            }
            tokio::time::sleep(REPORT_EVERY).await;
        }
    }

    /// The partitions that this server still restores in the same generation.
    fn still_restoring(
        &self,
        partitions: &[(PartitionId, PartitionGeneration)],
    ) -> Vec<(PartitionId, PartitionGeneration)> {
        let is_restoring = |(id, generation): &&(PartitionId, PartitionGeneration)| {
            let replica = self.0.replicas.lock(*id);
            replica.is_restoring && replica.last_applied.generation == *generation
        };
        partitions.iter().filter(is_restoring).copied().collect()
    }

    fn read(
        &self,
        hosted: &HostedPartitions,
        checkpoint: CheckpointId,
        partitions: &[(PartitionId, PartitionGeneration)],
    ) -> Result<Vec<Partition>, CheckpointError> {
        let ids: Vec<PartitionId> = partitions.iter().map(|(id, _)| *id).collect();
        // A plan that names a checkpoint also names the directory.
        let path = self.checkpoint_directory().unwrap_or_else(|| Path::new("").into());
        let storage = DirectoryStorage::new(&*path);
        let opened = Checkpoint::open(&storage, checkpoint).map_err(|error| match list(&storage) {
            // Other checkpoints are there, so this one was deleted.
            Ok(complete) if !complete.is_empty() && !complete.contains(&checkpoint) => {
                CheckpointError::NotFound { directory: path.display().to_string(), wanted: Some(checkpoint) }
            }
            Ok(_) | Err(_) => error,
        });
        opened?.restore(&hosted.layout(), &ids)
    }

    fn install_restored(
        &self,
        hosted: &HostedPartitions,
        checkpoint: CheckpointId,
        partitions: &[(PartitionId, PartitionGeneration)],
        restored: Vec<Partition>,
    ) {
        let generations: BTreeMap<PartitionId, PartitionGeneration> = partitions.iter().copied().collect();
        let mut restored_partitions = Vec::with_capacity(restored.len());
        for partition in restored {
            let (id, version) = (partition.id(), partition.version());
            let Some(generation) = generations.get(&id).copied() else { continue };
            let mut replica = self.0.replicas.lock(id);
            if replica.is_restoring && replica.last_applied.generation == generation {
                hosted.install(partition);
                replica.is_restoring = false;
                restored_partitions.push(restored_partition(id, generation, version));
                drop(replica);
                self.catch_up(hosted, id);
            }
        }
        tracing::info!(%checkpoint, partitions = restored_partitions.len(), "restored partitions");
        self.report_restored(restored_partitions);
        self.commit_steps();
        self.0.changed.notify_waiters();
    }

    fn report_restored(&self, partitions: Vec<master::RestoredPartition>) {
        if !partitions.is_empty() {
            let report = master::RestoreReport { partitions, ..master::RestoreReport::default() };
            self.report(master::from_server::Message::Restore(report));
        }
    }
}

fn restored_partition(id: PartitionId, generation: PartitionGeneration, version: u64) -> master::RestoredPartition {
    master::RestoredPartition { partition: id.number(), generation: generation.0, version }
}
