//! Checkpoints on the server: lists the directory, writes this server's part, and seals with the manifest.
//!
//! The master orders each action. A server writes the partitions that it is primary of, and reports its manifest entry.
//! Files are written on a file thread, partition by partition, while training goes on.

mod progress_storage;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flexor_wire::master::v1 as master;
use flexor_wire::master::v1::checkpoint_report::Result as CheckpointResult;
use flexor_wire::ps::v1 as wire;

use self::progress_storage::ProgressStorage;
use super::Server;
use super::file_thread::run_on_file_thread;
use super::replica_state::ReplicaRole;
use super::restore::{ATTEMPTS, RETRY_PAUSE};
use crate::checkpoint::{
    Checkpoint, CheckpointCut, CheckpointError, CheckpointId, CheckpointPart, DirectoryStorage, Storage,
};
use crate::checkpoint::{delete_incomplete, keep_last, list, write_manifest, write_part};
use crate::hosted::HostedPartitions;
use crate::placement::PartitionId;

/// Bytes that training may change in a held snapshot until it is written.
const SNAPSHOT_BUDGET: usize = 1 << 30;
/// How often the server reports progress while it waits to write.
const REPORT_EVERY: Duration = Duration::from_secs(1);

impl Server {
    /// Takes over the checkpoint directory, and lists it if the plan orders that.
    pub(super) fn list_checkpoints_if_ordered(&self, plan: &master::ServerPlan) {
        let Some(directory) = &plan.checkpoints else { return };
        self.0.checkpoints.lock().get_or_insert_with(|| Arc::from(Path::new(&directory.path)));
        if directory.list && !self.0.has_listed_checkpoints.swap(true, Ordering::AcqRel) {
            tokio::spawn(self.clone().report_checkpoints());
        }
    }

    async fn report_checkpoints(self) {
        let Some(path) = self.checkpoint_directory() else { return };
        for attempt in 1.. {
            let storage = DirectoryStorage::new(&*path);
            let Some(found) = run_on_file_thread("list", "the checkpoints", move || find_latest(&storage)).await else {
                return;
            };
            let found = match found {
                Err(error) if attempt < ATTEMPTS => {
                    tracing::warn!(%error, "cannot list the checkpoints; will try again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
                Err(error) => master::CheckpointsFound { unusable: error.to_string(), ..Default::default() },
                Ok(found) => found,
            };
            return self.report(master::from_server::Message::CheckpointsFound(found));
        }
    }

    /// Carries out the checkpoint order of a plan, once. An order that a plan does not name any more is cancelled.
    pub(super) fn apply_checkpoint_order(
        &self,
        hosted: &Arc<HostedPartitions>,
        plan: &master::ServerPlan,
        rewind_epoch: u64,
    ) {
        self.0.ordered_checkpoint.store(plan.checkpoint.as_ref().map_or(0, |order| order.number), Ordering::Release);
        let (Some(order), Some(directory)) = (&plan.checkpoint, &plan.checkpoints) else { return };
        let action = (order.number, order.seal.is_some());
        if self.0.last_checkpoint_action.lock().replace(action) == Some(action) {
            return;
        }
        let (number, steps, hosted, keep) = (order.number, order.steps, Arc::clone(hosted), directory.keep as usize);
        match order.seal.clone() {
            None => {
                let server = self.clone();
                tokio::spawn(async move {
                    server.wait_for_restores(number).await;
                    // The master commits the step right after the order, and no further step before the snapshot is held.
                    if let Some(steps) = steps
                        && server.wait_for_step(wire::AtStep { steps, rewind_epoch }).await.is_err()
                    {
                        let late = CheckpointError::StepNotReached { id: CheckpointId(number), steps };
                        return server.report(report(number, Err(late)));
                    }
                    server.spawn_file_work(number, move |server, storage| {
                        server.write_part(storage, number, steps, &hosted).map(CheckpointResult::Part)
                    });
                });
            }
            Some(seal) => self.spawn_file_work(number, move |_, storage| {
                write_seal(storage, number, &hosted, seal, keep).map(|()| CheckpointResult::Sealed(true))
            }),
        }
    }

    /// Waits until all partitions are restored, and reports progress meanwhile.
    async fn wait_for_restores(&self, number: u64) {
        let is_restored = || PartitionId::all().all(|id| !self.0.replicas.lock(id).is_restoring);
        while tokio::time::timeout(REPORT_EVERY, self.wait_until(|| is_restored() || !self.is_ordered(number)))
            .await
            .is_err()
        {
            self.report(checkpoint_report(number, CheckpointResult::Writing(true)));
        }
    }

    pub(super) fn checkpoint_directory(&self) -> Option<Arc<Path>> {
        self.0.checkpoints.lock().clone()
    }

    /// Runs checkpoint work on a file thread, and reports the result.
    fn spawn_file_work(
        &self,
        number: u64,
        work: impl FnOnce(&Self, &DirectoryStorage) -> Result<CheckpointResult, CheckpointError> + Send + 'static,
    ) {
        let Some(path) = self.checkpoint_directory() else { return };
        let (server, worker) = (self.clone(), self.clone());
        tokio::spawn(async move {
            let work = move || work(&worker, &DirectoryStorage::new(&*path));
            if let Some(result) = run_on_file_thread("write", &CheckpointId(number).directory(), work).await {
                server.report(report(number, result));
            }
        });
    }

    /// Writes the partitions that this server is primary of; stops when the order is cancelled.
    fn write_part(
        &self,
        storage: &dyn Storage,
        number: u64,
        steps: Option<u64>,
        hosted: &HostedPartitions,
    ) -> Result<String, CheckpointError> {
        let cancelled = || CheckpointError::Cancelled { id: CheckpointId(number) };
        if !self.is_ordered(number) {
            return Err(cancelled());
        }
        let written = self.write_all(storage, number, steps, hosted);
        written.map_err(|error| if self.is_ordered(number) { error } else { cancelled() })
    }

    fn is_ordered(&self, number: u64) -> bool {
        self.0.ordered_checkpoint.load(Ordering::Acquire) == number
    }

    fn write_all(
        &self,
        storage: &dyn Storage,
        number: u64,
        steps: Option<u64>,
        hosted: &HostedPartitions,
    ) -> Result<String, CheckpointError> {
        if let Err(error) = delete_incomplete(storage, CheckpointId(number)) {
            tracing::warn!(%error, "cannot delete the remains of other attempts");
        }
        let mine: Vec<PartitionId> =
            PartitionId::all().filter(|id| self.0.replicas.lock(*id).role == ReplicaRole::Primary).collect();
        let cut = match steps {
            None => CheckpointCut::PerPartitionOf(mine),
            Some(steps) => {
                let cut = CheckpointCut::take(hosted, &mine, SNAPSHOT_BUDGET);
                if cut.versions() != vec![steps; mine.len()] {
                    cut.release(hosted);
                    return Err(CheckpointError::StepNotReached { id: CheckpointId(number), steps });
                }
                self.report(checkpoint_report(number, CheckpointResult::Held(true)));
                cut
            }
        };
        let report = || self.report(checkpoint_report(number, CheckpointResult::Writing(true)));
        let storage = ProgressStorage { storage, report, is_ordered: || self.is_ordered(number) };
        let part = write_part(&storage, CheckpointId(number), &self.name().name, hosted, cut)?;
        // Numbers, names and lists always encode.
        Ok(serde_json::to_string(&part).unwrap_or_default())
    }
}

fn write_seal(
    storage: &DirectoryStorage,
    number: u64,
    hosted: &HostedPartitions,
    seal: master::Seal,
    keep: usize,
) -> Result<(), CheckpointError> {
    let id = CheckpointId(number);
    let parts: Result<Vec<CheckpointPart>, serde_json::Error> =
        seal.parts.iter().map(|part| serde_json::from_str(part)).collect();
    let parts = parts.map_err(|error| CheckpointError::part(id, error))?;
    write_manifest(storage, id, hosted.layout().spec(), parts, seal.ledger.into_bytes())?;
    // The checkpoint is complete even if old ones cannot be deleted. The one that the master knows stays until the master
    // learns of this one, because lost partitions restart from it.
    if let Err(error) = keep_last(storage, keep, seal.known.map(CheckpointId)) {
        tracing::warn!(%error, "cannot delete old checkpoints");
    }
    tracing::info!(checkpoint = number, "checkpoint is complete");
    Ok(())
}

fn report(number: u64, result: Result<CheckpointResult, CheckpointError>) -> master::from_server::Message {
    let result = result.unwrap_or_else(|error| {
        if matches!(error, CheckpointError::Cancelled { .. }) {
            tracing::info!("{error}");
        } else {
            tracing::warn!(checkpoint = number, %error, "cannot write a checkpoint");
        }
        CheckpointResult::Failure(error.to_string())
    });
    checkpoint_report(number, result)
}

fn checkpoint_report(number: u64, result: CheckpointResult) -> master::from_server::Message {
    master::from_server::Message::Checkpoint(master::CheckpointReport { number, result: Some(result) })
}

/// Finds the latest checkpoint whose every byte is intact. An error of the storage is returned, not skipped: the checkpoint
/// may be intact.
fn find_latest(storage: &DirectoryStorage) -> Result<master::CheckpointsFound, CheckpointError> {
    let complete = list(storage)?;
    let mut found = master::CheckpointsFound { highest: highest(storage), ..master::CheckpointsFound::default() };
    for id in complete.into_iter().rev() {
        let read = Checkpoint::open(storage, id).and_then(|checkpoint| {
            checkpoint.verify()?;
            Ok((serde_json::to_string(&checkpoint.manifest().model), checkpoint.manifest().ledger.clone()))
        });
        match read {
            Ok((Ok(model), ledger)) => {
                let ledger = String::from_utf8_lossy(&ledger).into_owned();
                return Ok(master::CheckpointsFound { latest: Some(id.0), model, ledger, ..found });
            }
            Err(error) if error.is_transient() => return Err(error),
            Ok((Err(error), _)) => found.damaged.push(error.to_string()),
            Err(error) => found.damaged.push(error.to_string()),
        }
    }
    // Starting from scratch is the user's decision: another machine may be able to read the checkpoints.
    if let Some(latest) = found.damaged.first() {
        found.unusable = format!("of {} checkpoints none can be read: {latest}", found.damaged.len());
    }
    Ok(found)
}

/// The highest number in the directory, with or without a complete checkpoint.
fn highest(storage: &DirectoryStorage) -> u64 {
    let names = storage.list().unwrap_or_default();
    let numbers = names.iter().filter_map(|name| CheckpointId::of_directory(name.split_once('/')?.0));
    numbers.map(|id| id.0).max().unwrap_or(0)
}
