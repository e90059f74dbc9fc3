//! The backup's side of replication: receives syncs and replicated pushes from primaries.
//!
//! Pieces build up a partition; pushes that the primary applies meanwhile are queued ([`inbox`]). After the last piece, the
//! backup applies changes by their sequence numbers, whichever message brings them. It answers a message when every part
//! is done. [`disposition`] decides about each change; the primary's side is [`super::replicator`].

mod disposition;
mod inbox;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use flexor_model::MapEpoch;
use flexor_wire::ps::v1 as wire;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

use self::disposition::{Disposition, ReplicatedChange};
use self::inbox::{
    BacklogReservation, IncomingSync, InstalledSync, PendingPush, QueuedChange, Replies, SyncContents, send_reply,
};
pub(super) use self::inbox::{BackupInbox, PartitionInbox};
use super::Server;
use super::decode::{BasedOn, DecodedPush};
use super::replica_state::{ReplicaRole, ReplicaState};
use super::sequence::{PartitionGeneration, SequenceNumber, SyncId};
use crate::hosted::HostedPartitions;
use crate::partition::PartitionImport;
use crate::piece::Piece;
use crate::placement::PartitionId;
use crate::push::CheckedPush;

/// A message that has just arrived, checked once for all of its parts.
struct CheckedMessage<'a> {
    message: &'a Arc<PendingPush>,
    push: &'a CheckedPush<'a>,
}

/// Receives what a primary sends until its stream ends; returns the replies.
pub(super) fn receive(
    server: Server,
    messages: Streaming<wire::FromPrimary>,
) -> impl Stream<Item = Result<wire::FromBackup, Status>> + Send {
    let (replies, receiver) = mpsc::unbounded_channel();
    tokio::spawn(receive_all(server, messages, replies));
    UnboundedReceiverStream::new(receiver)
}

async fn receive_all(server: Server, mut messages: Streaming<wire::FromPrimary>, replies: Replies) {
    // The primary may learn of this server before this server has its first plan.
    server.wait_for_model().await;
    let mut syncs = BTreeSet::new();
    while let Some(Ok(message)) = messages.next().await {
        let Some(message) = message.message else { continue };
        if let wire::from_primary::Message::Piece(piece) = &message {
            syncs.insert((piece.partition, SyncId(piece.sync_id)));
        }
        if let Err((partition, detail)) = server.receive_message(message, &replies) {
            // The send fails only when the stream has ended.
            let _ = replies.send(Err(Status::invalid_argument(format!("partition {partition}: {detail}"))));
            break;
        }
    }
    // No more pieces can arrive.
    for (partition, sync_id) in syncs {
        server.cancel_unfinished(partition, sync_id);
    }
}

/// A malformed message: the partition that it concerns, and what is wrong.
type Malformed = (u32, String);

impl Server {
    fn receive_message(&self, message: wire::from_primary::Message, replies: &Replies) -> Result<(), Malformed> {
        match message {
            wire::from_primary::Message::Piece(piece) => self.receive_piece(&piece, replies),
            wire::from_primary::Message::Push(push) => self.receive_push(push, replies),
            wire::from_primary::Message::Cancelled(cancelled) => {
                self.cancel_sync(&cancelled);
                Ok(())
            }
        }
    }

    fn receive_piece(&self, piece: &wire::SyncPiece, replies: &Replies) -> Result<(), Malformed> {
        let malformed = |detail: &dyn std::fmt::Display| (piece.partition, detail.to_string());
        let id = PartitionId::of_number(piece.partition).ok_or_else(|| malformed(&"no such partition"))?;
        let hosted = self.0.hosted.get().ok_or_else(|| malformed(&"the model is not known here yet"))?;
        let (sync_id, map_epoch) = (SyncId(piece.sync_id), MapEpoch(piece.map_epoch));
        let mut inbox = self.0.inbox.of(id).lock();
        // Whatever becomes of this piece, the primary may send another.
        send_reply(replies, wire::from_backup::Message::PiecesReceived(1));
        let start = || IncomingSync {
            sync_id,
            map_epoch,
            contents: SyncContents::Partial(PartitionImport::new(&hosted.layout(), id)),
        };
        let Some(IncomingSync { contents, .. }) = inbox.resume_sync(sync_id, start) else { return Ok(()) };
        let SyncContents::Partial(mut import) = contents else {
            return Err(malformed(&"a sync continues after its last piece"));
        };
        if !piece.last {
            let decoded = Piece::from_bytes(&piece.piece).map_err(|error| malformed(&error))?;
            let added = import.add(decoded).map_err(|error| malformed(&error));
            inbox.incoming = Some(IncomingSync { sync_id, map_epoch, contents: SyncContents::Partial(import) });
            return added;
        }
        let partition = import.finish().map_err(|error| malformed(&error))?;
        let sequence = SequenceNumber { generation: PartitionGeneration(piece.generation), number: piece.sequence };
        let contents = SyncContents::Complete { partition, sequence, replies: replies.clone() };
        inbox.incoming = Some(IncomingSync { sync_id, map_epoch, contents });
        let mut replica = self.0.replicas.lock(id);
        install(hosted, id, &mut replica, &mut inbox).map_err(|error| malformed(&error))
    }

    fn receive_push(&self, replicated: wire::ReplicatedPush, replies: &Replies) -> Result<(), Malformed> {
        let first = replicated.parts.first().map_or(0, |part| part.partition);
        let malformed = |detail: &dyn std::fmt::Display| (first, detail.to_string());
        let hosted = self.0.hosted.get().ok_or_else(|| malformed(&"the model is not known here yet"))?;
        let push = replicated.push.ok_or_else(|| malformed(&"the message has no push"))?;
        let (in_step, based_on) = (push.rewind_epoch.is_some(), BasedOn::of(&push));
        let push = DecodedPush::of(&hosted.layout(), &push).map_err(|error| malformed(&error))?;
        // One more than there are parts: the reply waits until all parts have been looked at.
        let unfinished = AtomicUsize::new(replicated.parts.len() + 1);
        let (rejected, replies) = (Mutex::default(), replies.clone());
        let reservation = BacklogReservation::take(&self.0.inbox.backlog, push.bytes());
        let message = Arc::new(PendingPush {
            id: replicated.id,
            push,
            in_step,
            based_on,
            unfinished,
            rejected,
            replies,
            _reservation: reservation,
        });
        message.push.with(|push| -> Result<(), Malformed> {
            let checked = hosted.check(push).map_err(|error| malformed(&error))?;
            let current = CheckedMessage { message: &message, push: &checked };
            for part in &replicated.parts {
                let id = PartitionId::of_number(part.partition).ok_or_else(|| malformed(&"no such partition"))?;
                let mut inbox = self.0.inbox.of(id).lock();
                let mut replica = self.0.replicas.lock(id);
                let change = ReplicatedChange::of(part);
                let sender_waits = match Disposition::of(&change, &replica, &inbox) {
                    Disposition::Reject => {
                        message.reject_part(id);
                        continue;
                    }
                    Disposition::Skip => {
                        message.finish_part();
                        continue;
                    }
                    Disposition::Queue => true,
                    Disposition::QueueForSync => {
                        message.finish_part();
                        false
                    }
                };
                let ReplicatedChange { sequence, sync_id, map_epoch } = change;
                if let Some(sync_id) = sync_id.filter(|_| !sender_waits && self.0.inbox.is_full()) {
                    let rejected =
                        inbox.reject_sync(id, sync_id, "training changes the partition faster than it syncs");
                    send_reply(&message.replies, rejected);
                    continue;
                }
                let queued = QueuedChange { message: message.clone(), sender_waits, sync_id, map_epoch };
                inbox.enqueue(id, sequence, queued);
                apply_queued(hosted, id, &mut replica, &mut inbox, Some(&current))
                    .map_err(|error| malformed(&error))?;
            }
            Ok(())
        })?;
        message.finish_part();
        Ok(())
    }

    /// Forgets a sync that the primary has cancelled, unless the map has made this server the backup.
    fn cancel_sync(&self, cancelled: &wire::SyncCancelled) {
        let Some(id) = PartitionId::of_number(cancelled.partition) else { return };
        let sync_id = SyncId(cancelled.sync_id);
        let mut inbox = self.0.inbox.of(id).lock();
        let replica = self.0.replicas.lock(id);
        inbox.cancel_sync(sync_id);
        let is_installed = inbox.installed.is_some_and(|installed| installed.sync_id == sync_id);
        if replica.role == ReplicaRole::Absent && is_installed {
            inbox.installed = None;
            if let Some(hosted) = self.0.hosted.get() {
                hosted.remove(id);
            }
        }
    }

    fn cancel_unfinished(&self, partition: u32, sync_id: SyncId) {
        let Some(id) = PartitionId::of_number(partition) else { return };
        let mut inbox = self.0.inbox.of(id).lock();
        if inbox.installed.is_none_or(|installed| installed.sync_id != sync_id) {
            inbox.cancel_sync(sync_id);
        }
    }

    /// Settles what a new plan decides about a partition's inbox: installs a sync that waited for the plan, and answers
    /// queued changes that can never be applied.
    pub(super) fn settle_queue(&self, id: PartitionId) {
        let mut inbox = self.0.inbox.of(id).lock();
        let mut replica = self.0.replicas.lock(id);
        if let Some(hosted) = self.0.hosted.get()
            && let Err(error) = install(hosted, id, &mut replica, &mut inbox)
        {
            tracing::error!(partition = %id, error, "a replicated change cannot be applied");
        }
        // Its sender is no longer primary, and will not cancel it.
        let outdated = inbox.incoming.as_ref().filter(|incoming| incoming.map_epoch < replica.primary_since);
        if let Some(sync_id) = outdated.map(|incoming| incoming.sync_id) {
            inbox.cancel_sync(sync_id);
        }
        if replica.role == ReplicaRole::Absent
            && inbox.installed.take_if(|installed| installed.map_epoch < replica.primary_since).is_some()
            && let Some(hosted) = self.0.hosted.get()
        {
            hosted.remove(id);
        }
        let is_primary = replica.role == ReplicaRole::Primary;
        if is_primary && inbox.incoming.is_none() {
            inbox.installed = None;
        }
        inbox.queued.retain(|_, queued| {
            // Changes of an earlier primary were never acknowledged and are void. Changes of a primary by a later map stay.
            let is_rejected =
                queued.map_epoch < replica.primary_since || (is_primary && queued.map_epoch <= replica.map_epoch);
            let is_absent = replica.role == ReplicaRole::Absent;
            let is_pointless = is_absent && queued.sync_id.is_none() && queued.map_epoch <= replica.map_epoch;
            if is_rejected {
                queued.reject(id);
            } else if is_pointless {
                queued.finish();
            }
            !is_rejected && !is_pointless
        });
    }

    /// Applies queued changes to a partition that has just started its generation on this server.
    pub(super) fn catch_up(&self, hosted: &HostedPartitions, id: PartitionId) {
        let mut inbox = self.0.inbox.of(id).lock();
        let mut replica = self.0.replicas.lock(id);
        let generation = replica.last_applied.generation;
        inbox.queued.retain(|sequence, queued| {
            let is_old = sequence.generation < generation;
            if is_old {
                queued.finish();
            }
            !is_old
        });
        if let Err(error) = apply_queued(hosted, id, &mut replica, &mut inbox, None) {
            tracing::error!(partition = %id, error, "a replicated change cannot be applied");
        }
    }
}

/// Installs a complete sync once this server knows the map that makes the sender primary; contents by an earlier map are
/// replaced. Rejects the sync if the partition has another primary by then.
fn install(
    hosted: &HostedPartitions,
    id: PartitionId,
    replica: &mut ReplicaState,
    inbox: &mut PartitionInbox,
) -> Result<(), String> {
    let is_complete = |incoming: &IncomingSync| matches!(incoming.contents, SyncContents::Complete { .. });
    let is_ready = |incoming: &IncomingSync| incoming.map_epoch <= replica.map_epoch && is_complete(incoming);
    let ready = inbox.incoming.take_if(|incoming| is_ready(incoming));
    let Some(IncomingSync { sync_id, map_epoch, contents }) = ready else { return Ok(()) };
    let SyncContents::Complete { partition, sequence, replies } = contents else { return Ok(()) };
    if replica.role == ReplicaRole::Primary || map_epoch < replica.primary_since {
        let why = format!("the partition has another primary since map {}", replica.primary_since);
        send_reply(&replies, inbox.reject_sync(id, sync_id, &why));
        return Ok(());
    }
    hosted.install(partition);
    replica.last_applied = sequence;
    inbox.installed = Some(InstalledSync { sync_id, map_epoch });
    // Changes that were still queued when this server stopped being a backup are contained in the new contents.
    inbox.queued.retain(|queued_sequence, queued| {
        let is_contained = *queued_sequence <= sequence;
        match queued.map_epoch < replica.primary_since {
            _ if !is_contained => {}
            true => queued.reject(id),
            false => queued.finish(),
        }
        !is_contained
    });
    apply_queued(hosted, id, replica, inbox, None)?;
    let completed = wire::SyncCompleted { partition: id.number(), sync_id: sync_id.0 };
    send_reply(&replies, wire::from_backup::Message::Completed(completed));
    Ok(())
}

/// Applies queued changes in order, as far as they are without gaps; `current` is probably the next one. A server that is
/// primary to its own knowledge applies none: the sender knows a later map, which may replace the contents here.
fn apply_queued(
    hosted: &HostedPartitions,
    id: PartitionId,
    replica: &mut ReplicaState,
    inbox: &mut PartitionInbox,
    current: Option<&CheckedMessage<'_>>,
) -> Result<(), String> {
    if replica.role == ReplicaRole::Primary || inbox.incoming.is_some() || !hosted.holds(id) {
        return Ok(());
    }
    loop {
        let next = replica.last_applied.next();
        if !inbox.queued.get(&next).is_some_and(|queued| inbox.is_for_contents_here(queued.sync_id)) {
            return Ok(());
        }
        let Some(queued) = inbox.queued.remove(&next) else { return Ok(()) };
        let message = &queued.message;
        let apply = |push: &CheckedPush<'_>| {
            let based_on = message.based_on.version(id, next.generation);
            let applied =
                hosted.with(id, |partition| partition.apply_replicated(push, message.in_step, based_on)).flatten();
            applied.map_err(|error| error.to_string())
        };
        let applied = match current.filter(|current| Arc::ptr_eq(current.message, message)) {
            Some(current) => apply(current.push),
            None => message.push.with(|push| apply(&hosted.check(push).map_err(|error| error.to_string())?)),
        };
        if let Err(why) = applied {
            // The primary must not count this backup as in sync: the master orders another sync.
            queued.reject(id);
            return Err(why);
        }
        replica.last_applied = next;
        queued.finish();
    }
}
