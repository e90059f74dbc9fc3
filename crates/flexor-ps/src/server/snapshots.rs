//! Snapshots for clients: the partitions that the server answers for, as they were at one moment, while training goes on.
//!
//! A snapshot lasts as long as the call that took it, so that nothing stays behind of a client that is gone. Partitions
//! that move to another server take no snapshot along: who reads one is told so.

use std::sync::Arc;

use flexor_wire::ps::v1 as wire;
use futures::Stream;
use tonic::Status;

use super::Server;
use super::post::Role;
use crate::hosted::Hosted;
use crate::placement::PartitionId;
use crate::snapshot::{SnapshotId, SnapshotLost};

/// How many a server keeps at a time.
const MOST: usize = 8;

impl Server {
    /// Takes a snapshot: the one answer of the call, which keeps it.
    pub(super) fn take_snapshot(
        &self,
        asked: &wire::TakeSnapshot,
    ) -> Result<impl Stream<Item = Result<wire::SnapshotTaken, Status>> + Send + use<>, Status> {
        let Some(hosted) = self.0.hosted.get() else {
            return Err(Status::unavailable("the model is not known here yet"));
        };
        if let Some(wrong) = other_model(hosted, asked.model) {
            return Err(Status::failed_precondition(wrong));
        }
        if hosted.open_snapshots() >= MOST {
            let most = format!("{MOST} snapshots are open; try again when one is not read any more");
            return Err(Status::resource_exhausted(most));
        }
        let mine: Vec<PartitionId> =
            PartitionId::all().filter(|id| self.0.posts.lock(*id).role == Role::Owner && hosted.holds(*id)).collect();
        let budget = usize::try_from(asked.budget).unwrap_or(usize::MAX);
        let id = hosted.open_snapshot(mine.iter().copied(), budget);
        let kept = Kept { hosted: Arc::clone(hosted), id };
        let partitions = mine.into_iter().map(PartitionId::number).collect();
        let taken = wire::SnapshotTaken { snapshot: id.0, partitions };
        Ok(futures::stream::unfold((Some(taken), kept), async |(taken, kept)| match taken {
            Some(taken) => Some((Ok(taken), (None, kept))),
            None => std::future::pending().await,
        }))
    }
}

/// The model, if a client means another one.
pub(super) fn other_model(hosted: &Hosted, model: u64) -> Option<String> {
    let mine = hosted.layout().fingerprint().0;
    (model != mine).then(|| format!("the job trains model {mine:016x}, not {model:016x}"))
}

/// What a client is told of a snapshot that cannot be read.
pub(super) fn lost(why: SnapshotLost) -> wire::SnapshotLost {
    wire::SnapshotLost { overrun: matches!(why, SnapshotLost::Overrun { .. }), detail: why.to_string() }
}

/// Closes the snapshot when nobody wants it any more.
struct Kept {
    hosted: Arc<Hosted>,
    id: SnapshotId,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.hosted.close_snapshot(self.id);
    }
}
