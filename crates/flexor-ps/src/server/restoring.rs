//! Partitions that begin again with a checkpoint: read on a thread of their own, and put in place when they are whole.
//!
//! Until then the server has nothing of them: whoever asks is told to ask again. The map may have changed meanwhile, so
//! that a partition is put in place only if it still is what the server was told to begin.

use std::collections::BTreeMap;
use std::sync::Arc;

use flexor_wire::master::v1 as master;

use super::Server;
use super::numbers::Origin;
use crate::checkpoint::{Checkpoint, CheckpointId, Folder};
use crate::hosted::Hosted;
use crate::partition::Partition;
use crate::placement::PartitionId;

/// What begins for the first time.
const FIRST: Origin = Origin(1);

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
            let (server, hosted) = (self.clone(), Arc::clone(hosted));
            tokio::task::spawn_blocking(move || server.restore(&hosted, number, &partitions));
        }
    }

    fn restore(&self, hosted: &Arc<Hosted>, number: CheckpointId, partitions: &[(PartitionId, Origin)]) {
        let ids: Vec<PartitionId> = partitions.iter().map(|(id, _)| *id).collect();
        let read = match self.checkpoint_folder() {
            None => Err("it is not known where checkpoints lie".to_owned()),
            Some(folder) => {
                let folder = Folder::new(&*folder);
                let opened = Checkpoint::open(&folder, number);
                opened.and_then(|open| open.restore(&hosted.layout(), &ids)).map_err(|error| error.to_string())
            }
        };
        match read {
            Ok(restored) => self.put_in_place(hosted, number, partitions, restored),
            Err(why) => {
                tracing::error!(checkpoint = %number, why, "cannot be read");
                let partitions = partitions.iter().map(|(id, origin)| begun_partition(*id, *origin, 0)).collect();
                let report = master::BeginReport { partitions, unreadable: Some(number.0), why };
                self.report(master::from_server::Message::Begun(report));
            }
        }
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
            let report = master::BeginReport { partitions, unreadable: None, why: String::new() };
            self.report(master::from_server::Message::Begun(report));
        }
    }
}

fn begun_partition(id: PartitionId, origin: Origin, version: u64) -> master::BegunPartition {
    master::BegunPartition { partition: id.number(), origin: origin.0, version }
}
