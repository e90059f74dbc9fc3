//! Snapshots for clients: the partitions that the server is primary of, as of one moment, while training goes on.
//!
//! A snapshot lasts as long as the call that opened it, so a lost client leaves nothing behind. It does not move with a
//! partition to another server: a client that reads it then gets an error.

use std::sync::Arc;

use flexor_wire::ps::v1 as wire;
use futures::Stream;
use tonic::Status;

use super::Server;
use super::replica_state::ReplicaRole;
use crate::hosted::HostedPartitions;
use crate::placement::PartitionId;
use crate::snapshot::{SnapshotId, SnapshotLost};

/// Open snapshots per server.
const MAX_SNAPSHOTS: usize = 8;

impl Server {
    /// Opens a snapshot. The returned stream has one reply, and closes the snapshot when it is dropped.
    pub(super) fn open_snapshot(
        &self,
        request: &wire::OpenSnapshot,
    ) -> Result<impl Stream<Item = Result<wire::SnapshotOpened, Status>> + Send + use<>, Status> {
        let Some(hosted) = self.0.hosted.get() else {
            return Err(Status::unavailable("the model is not known here yet"));
        };
        if let Some(wrong) = other_model(hosted, request.model) {
            return Err(Status::failed_precondition(wrong));
        }
        if hosted.open_snapshots() >= MAX_SNAPSHOTS {
            let message = format!("{MAX_SNAPSHOTS} snapshots are open; try again when one is closed");
            return Err(Status::resource_exhausted(message));
        }
        let mine: Vec<PartitionId> = PartitionId::all()
            .filter(|id| self.0.replicas.lock(*id).role == ReplicaRole::Primary && hosted.holds(*id))
            .collect();
        let budget = usize::try_from(request.budget).unwrap_or(usize::MAX);
        let id = hosted.open_snapshot(mine.iter().copied(), budget);
        let open = OpenedSnapshot { hosted: Arc::clone(hosted), id };
        let partitions = mine.into_iter().map(PartitionId::number).collect();
        let opened = wire::SnapshotOpened { snapshot: id.0, partitions };
        Ok(futures::stream::unfold((Some(opened), open), async |(opened, open)| match opened {
            Some(opened) => Some((Ok(opened), (None, open))),
            None => std::future::pending().await,
        }))
    }
}

/// Why a client with this model is refused, if it is.
pub(super) fn other_model(hosted: &HostedPartitions, model: u64) -> Option<String> {
    let mine = hosted.layout().fingerprint().0;
    (model != mine).then(|| format!("the job trains model {mine:016x}, not {model:016x}"))
}

/// The reply for a snapshot that cannot be read.
pub(super) fn lost(why: SnapshotLost) -> wire::SnapshotLost {
    wire::SnapshotLost { overrun: matches!(why, SnapshotLost::Overrun { .. }), detail: why.to_string() }
}

/// Closes the snapshot on drop.
struct OpenedSnapshot {
    hosted: Arc<HostedPartitions>,
    id: SnapshotId,
}

impl Drop for OpenedSnapshot {
    fn drop(&mut self) {
        self.hosted.close_snapshot(self.id);
    }
}
