//! What a backup has received and not yet applied: incomplete syncs, and changes that wait for their predecessors.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flexor_model::MapEpoch;
use flexor_wire::ps::v1 as wire;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::Status;

use crate::partition::{Partition, PartitionImport};
use crate::placement::PartitionId;
use crate::server::decode::{BasedOn, DecodedPush};
use crate::server::sequence::{SequenceNumber, SyncId};

/// Replies to one primary.
pub(super) type Replies = mpsc::UnboundedSender<Result<wire::FromBackup, Status>>;

/// Bytes of changes that may wait for incomplete syncs. Beyond that, training is too fast for a sync: the backup rejects
/// it, and the master orders another one.
pub(super) const MAX_BACKLOG: usize = 1 << 30;

/// The inboxes of all partitions.
pub(in crate::server) struct BackupInbox {
    partitions: Vec<Mutex<PartitionInbox>>,
    /// Bytes of received changes that are not applied yet.
    pub(super) backlog: Arc<AtomicUsize>,
}

impl Default for BackupInbox {
    fn default() -> Self {
        Self { partitions: PartitionId::all().map(|_| Mutex::default()).collect(), backlog: Arc::default() }
    }
}

impl BackupInbox {
    pub(in crate::server) fn of(&self, id: PartitionId) -> &Mutex<PartitionInbox> {
        &self.partitions[id.index()]
    }

    pub(super) fn is_full(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) > MAX_BACKLOG
    }
}

/// The share of a message in the backlog, released on drop.
pub(super) struct BacklogReservation {
    pub(super) backlog: Arc<AtomicUsize>,
    pub(super) bytes: usize,
}

impl BacklogReservation {
    pub(super) fn take(backlog: &Arc<AtomicUsize>, bytes: usize) -> Self {
        backlog.fetch_add(bytes, Ordering::Relaxed);
        Self { backlog: Arc::clone(backlog), bytes }
    }
}

impl Drop for BacklogReservation {
    fn drop(&mut self) {
        self.backlog.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Syncs and changes of one partition.
#[derive(Default)]
pub(in crate::server) struct PartitionInbox {
    /// The sync that is not installed yet: the latest that anything has arrived of.
    pub(super) incoming: Option<IncomingSync>,
    /// The sync that was installed last.
    pub(super) installed: Option<InstalledSync>,
    /// Syncs up to this id are cancelled, except for the installed one.
    pub(super) cancelled_up_to: SyncId,
    /// Changes that wait for their predecessors.
    pub(super) queued: BTreeMap<SequenceNumber, QueuedChange>,
}

/// A sync that is not installed yet.
pub(super) struct IncomingSync {
    pub(super) sync_id: SyncId,
    /// Epoch of the map that makes the sender primary.
    pub(super) map_epoch: MapEpoch,
    pub(super) contents: SyncContents,
}

pub(super) enum SyncContents {
    Partial(PartitionImport),
    /// Everything has arrived, and this server does not know yet that the sender is primary.
    Complete {
        partition: Partition,
        /// The last change that the contents include.
        sequence: SequenceNumber,
        replies: Replies,
    },
}

/// A sync that was installed.
#[derive(Clone, Copy)]
pub(super) struct InstalledSync {
    pub(super) sync_id: SyncId,
    /// Epoch of the map that made the sender primary.
    pub(super) map_epoch: MapEpoch,
}

/// A change that waits for its predecessors.
pub(super) struct QueuedChange {
    pub(super) message: Arc<PendingPush>,
    /// The primary waits for this change. It does not wait for changes of an incomplete sync: the sync completes only with
    /// them.
    pub(super) sender_waits: bool,
    /// The sync that the change follows; none for a backup that started in sync.
    pub(super) sync_id: Option<SyncId>,
    /// Epoch of the map that makes the sender primary.
    pub(super) map_epoch: MapEpoch,
}

impl fmt::Display for PartitionInbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let installed = self.installed.map(|installed| installed.sync_id);
        write!(f, "sync {installed:?} is installed, up to {:?} cancelled", self.cancelled_up_to)?;
        if let Some(IncomingSync { sync_id, map_epoch, contents }) = &self.incoming {
            let progress = match contents {
                SyncContents::Partial(_) => "partial",
                SyncContents::Complete { .. } => "complete",
            };
            write!(f, ", {sync_id:?} is {progress} by map {map_epoch}")?;
        }
        for (sequence, QueuedChange { sender_waits, sync_id, map_epoch, .. }) in &self.queued {
            let awaited = if *sender_waits { "awaited" } else { "not awaited" };
            write!(f, ", {sequence} for {sync_id:?} is queued by map {map_epoch} ({awaited})")?;
        }
        Ok(())
    }
}

impl PartitionInbox {
    pub(in crate::server) fn is_empty(&self) -> bool {
        self.incoming.is_none() && self.queued.is_empty()
    }

    /// Whether a change that follows this sync applies to the contents that are here.
    pub(super) fn is_for_contents_here(&self, sync_id: Option<SyncId>) -> bool {
        sync_id.is_none() || sync_id == self.installed.map(|installed| installed.sync_id)
    }

    /// Takes the progress of a sync, or `start` for a new one; none for a cancelled one. The master orders one sync at a
    /// time, so the first piece of a sync cancels the earlier ones.
    pub(super) fn resume_sync(
        &mut self,
        sync_id: SyncId,
        start: impl FnOnce() -> IncomingSync,
    ) -> Option<IncomingSync> {
        let is_outdated = self.incoming.as_ref().is_some_and(|incoming| incoming.sync_id > sync_id);
        if sync_id <= self.cancelled_up_to || is_outdated {
            return None;
        }
        match self.incoming.take() {
            Some(incoming) if incoming.sync_id == sync_id => Some(incoming),
            earlier => {
                if let Some(earlier) = earlier {
                    self.cancel_sync(earlier.sync_id);
                }
                Some(start())
            }
        }
    }

    /// Forgets a sync; later pieces of it are ignored.
    pub(super) fn cancel_sync(&mut self, sync_id: SyncId) {
        self.incoming.take_if(|incoming| incoming.sync_id == sync_id);
        self.cancelled_up_to = self.cancelled_up_to.max(sync_id);
        self.finish_queued(|queued| queued.sync_id == Some(sync_id));
    }

    /// Cancels a sync; returns the message for its sender.
    pub(super) fn reject_sync(&mut self, id: PartitionId, sync_id: SyncId, why: &str) -> wire::from_backup::Message {
        self.cancel_sync(sync_id);
        let (partition, detail) = (id.number(), why.to_owned());
        wire::from_backup::Message::Rejected(wire::SyncRejected { partition, detail, sync_id: sync_id.0 })
    }

    /// Queues a change. Two successive primaries may send changes of the same sequence number: the later primary's counts.
    pub(super) fn enqueue(&mut self, id: PartitionId, sequence: SequenceNumber, queued: QueuedChange) {
        let superseded = match self.queued.get(&sequence) {
            Some(known) if known.map_epoch > queued.map_epoch => Some(queued),
            Some(_) | None => self.queued.insert(sequence, queued),
        };
        if let Some(superseded) = superseded {
            superseded.reject(id);
        }
    }

    /// Drops queued changes that are no longer needed. To their senders they count as done.
    pub(super) fn finish_queued(&mut self, is_over: impl Fn(&QueuedChange) -> bool) {
        self.queued.retain(|_, queued| {
            let is_over = is_over(queued);
            if is_over {
                queued.finish();
            }
            !is_over
        });
    }
}

impl QueuedChange {
    pub(super) fn finish(&self) {
        if self.sender_waits {
            self.message.finish_part();
        }
    }

    pub(super) fn reject(&self, partition: PartitionId) {
        if self.sender_waits {
            self.message.reject_part(partition);
        }
    }
}

/// A replicated push whose parts are applied one by one.
pub(super) struct PendingPush {
    pub(super) id: u64,
    pub(super) push: DecodedPush,
    pub(super) in_step: bool,
    pub(super) based_on: BasedOn,
    pub(super) unfinished: AtomicUsize,
    /// Partitions that the sender is no longer primary of.
    pub(super) rejected: Mutex<Vec<u32>>,
    pub(super) replies: Replies,
    pub(super) _reservation: BacklogReservation,
}

impl PendingPush {
    /// One part is done. After the last one the primary gets the reply.
    pub(super) fn finish_part(&self) {
        if self.unfinished.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let (id, rejected) = (self.id, std::mem::take(&mut *self.rejected.lock()));
        send_reply(
            &self.replies,
            match rejected.is_empty() {
                true => wire::from_backup::Message::Applied(id),
                false => wire::from_backup::Message::PartlyApplied(wire::PartlyApplied { id, rejected }),
            },
        );
    }

    /// One part concerns a partition that the sender is no longer primary of. The reply must not count it as applied.
    pub(super) fn reject_part(&self, partition: PartitionId) {
        self.rejected.lock().push(partition.number());
        self.finish_part();
    }
}

pub(super) fn send_reply(replies: &Replies, message: wire::from_backup::Message) {
    // The send fails only when the stream has ended.
    let _ = replies.send(Ok(wire::FromBackup { message: Some(message) }));
}
