//! Partitions that begin again with a checkpoint: read on a thread of their own, and put in place when they are whole.
//!
//! Until then the server has nothing of them: whoever asks is told to ask again. The map may have changed meanwhile, so
//! that a partition is put in place only if it still is what the server was told to begin.
//!
//! Where the storage fails it is tried again for a while. Then the master is told, and nothing is read any more before it
//! has said who begins.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flexor_wire::master::v1 as master;

use super::Server;
use super::file_thread::on_a_file_thread;
use super::numbers::Origin;
use crate::checkpoint::{Checkpoint, CheckpointError, CheckpointId, Folder, list};
use crate::hosted::Hosted;
use crate::partition::Partition;
use crate::placement::PartitionId;

/// What begins for the first time.
const FIRST: Origin = Origin(1);

/// How often a storage that fails is tried, and how much time lies between two tries.
pub(super) const TRIES: (u32, Duration) = (5, Duration::from_secs(2));
/// How often it is said that a storage fails. Not again by the next session: the master may have found another way.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Partitions that a plan wants to begin again: which beginning, and with which checkpoint.
#[derive(Debug, Default)]
pub(super) struct Beginnings(Vec<(PartitionId, Origin, Option<CheckpointId>)>);

impl Beginnings {
    /// One more.
    pub(super) fn add(&mut self, id: PartitionId, origin: Origin, checkpoint: Option<CheckpointId>) {
        self.0.push((id, origin, checkpoint));
    }
}

impl Server {
    /// Begins partitions, and tells the master with what.
    pub(super) fn begin(&self, hosted: &Arc<Hosted>, beginnings: Beginnings) {
        let mut of_checkpoint: BTreeMap<CheckpointId, Vec<(PartitionId, Origin)>> = BTreeMap::new();
        let mut begun = Vec::new();
        for (id, origin, checkpoint) in beginnings.0 {
            match checkpoint {
                Some(number) => of_checkpoint.entry(number).or_default().push((id, origin)),
                // The first time there is nothing to lose.
                None if origin > FIRST => begun.push(begun_partition(id, origin, 0)),
                None => {}
            }
        }
        self.report_begun(begun);
        for (number, partitions) in of_checkpoint {
            tokio::spawn(self.clone().restore(Arc::clone(hosted), number, partitions));
        }
    }

    async fn restore(self, hosted: Arc<Hosted>, number: CheckpointId, partitions: Vec<(PartitionId, Origin)>) {
        let mut attempt = 1;
        let error = loop {
            let (server, hosted, wanted) = (self.clone(), Arc::clone(&hosted), self.still_to_begin(&partitions));
            let read = move || {
                let restored = server.read(&hosted, number, &wanted)?;
                server.put_in_place(&hosted, number, &wanted, restored);
                Ok(())
            };
            let Some(Err(error)) = on_a_file_thread("read", &number.folder(), read).await else { return };
            if !error.may_pass() || attempt == TRIES.0 {
                break error;
            }
            tracing::warn!(checkpoint = %number, %error, "cannot be read; tries again");
            tokio::time::sleep(TRIES.1).await;
            attempt += 1;
        };
        tracing::error!(checkpoint = %number, %error, "cannot be read");
        let (why, damaged) = (error.to_string(), !error.may_pass());
        let report = master::BeginReport { unreadable: Some(number.0), why, damaged, ..master::BeginReport::default() };
        loop {
            let wanted = self.still_to_begin(&partitions);
            if wanted.is_empty() {
                return;
            }
            let partitions = wanted.iter().map(|(id, origin)| begun_partition(*id, *origin, 0)).collect();
            let report = master::BeginReport { partitions, ..report.clone() };
            self.report(master::from_server::Message::Begun(report));
            if damaged {
                return;
            }
            tokio::time::sleep(SAY_EVERY).await;
        }
    }

    /// Those that the master still wants to begin here, as it did.
    fn still_to_begin(&self, partitions: &[(PartitionId, Origin)]) -> Vec<(PartitionId, Origin)> {
        let is_wanted = |(id, origin): &&(PartitionId, Origin)| {
            let post = self.0.posts.lock(*id);
            post.is_beginning && post.turn.origin == *origin
        };
        partitions.iter().filter(is_wanted).copied().collect()
    }

    fn read(
        &self,
        hosted: &Hosted,
        number: CheckpointId,
        partitions: &[(PartitionId, Origin)],
    ) -> Result<Vec<Partition>, CheckpointError> {
        let ids: Vec<PartitionId> = partitions.iter().map(|(id, _)| *id).collect();
        // Whoever names a checkpoint has said where they lie.
        let place = self.checkpoint_folder().unwrap_or_else(|| Path::new("").into());
        let folder = Folder::new(&*place);
        let opened = Checkpoint::open(&folder, number).map_err(|error| match list(&folder) {
            // Where others lie it would too, if somebody had not deleted it.
            Ok(whole) if !whole.is_empty() && !whole.contains(&number) => {
                CheckpointError::None { folder: place.display().to_string(), wanted: Some(number) }
            }
            Ok(_) | Err(_) => error,
        });
        opened?.restore(&hosted.layout(), &ids)
    }

    fn put_in_place(
        &self,
        hosted: &Hosted,
        number: CheckpointId,
        partitions: &[(PartitionId, Origin)],
        restored: Vec<Partition>,
    ) {
        let origins: BTreeMap<PartitionId, Origin> = partitions.iter().copied().collect();
        let mut begun = Vec::with_capacity(restored.len());
        for partition in restored {
            let (id, version) = (partition.id(), partition.version());
            let Some(origin) = origins.get(&id).copied() else { continue };
            let mut post = self.0.posts.lock(id);
            if post.is_beginning && post.turn.origin == origin {
                hosted.install(partition);
                post.is_beginning = false;
                begun.push(begun_partition(id, origin, version));
                drop(post);
                self.catch_up(hosted, id);
            }
        }
        tracing::info!(checkpoint = %number, partitions = begun.len(), "begin again");
        self.report_begun(begun);
        self.take_steps();
        self.0.changed.notify_waiters();
    }

    fn report_begun(&self, partitions: Vec<master::BegunPartition>) {
        if !partitions.is_empty() {
            let report = master::BeginReport { partitions, ..master::BeginReport::default() };
            self.report(master::from_server::Message::Begun(report));
        }
    }
}

fn begun_partition(id: PartitionId, origin: Origin, version: u64) -> master::BegunPartition {
    master::BegunPartition { partition: id.number(), origin: origin.0, version }
}
