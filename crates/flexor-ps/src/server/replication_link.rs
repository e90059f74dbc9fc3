//! The link from a primary to a backup server: carries syncs and replicated pushes, in order.
//!
//! A message gets its id before it is sent, under the lock of the partition that it concerns. So "everything applied so
//! far" is an id. A broken link is not repaired: the server reports the unreachable backups, and the master decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use flexor_wire::Token;
use flexor_wire::master::v1 as master;
use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::parameter_server_client::ParameterServerClient;
use futures::StreamExt;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::sequence::SyncId;
use super::{Server, ServerName};
use crate::dial::MAX_MESSAGE;
use crate::placement::PartitionId;

/// Pieces of partitions in flight.
const MAX_PIECES: usize = 16;
/// Bytes of messages that may wait to be sent. Waiting clients bound the changes for in-sync targets. No client waits for
/// a syncing target, so beyond this limit its sync is cancelled.
pub(super) const MAX_QUEUE: usize = 256 << 20;

/// A link to one incarnation of a server.
pub(super) struct ReplicationLink {
    to: ServerName,
    messages: mpsc::UnboundedSender<wire::FromPrimary>,
    /// Bytes of messages that wait to be sent.
    queued_bytes: AtomicUsize,
    ids: Mutex<MessageIds>,
    /// A message was acknowledged, or a waiter must check its condition again.
    changed: Notify,
    pieces: tokio::sync::Semaphore,
    /// Held by the sync that sends pieces.
    sender: tokio::sync::Mutex<()>,
    is_broken: AtomicBool,
}

#[derive(Default)]
struct MessageIds {
    last: u64,
    unacknowledged: BTreeSet<u64>,
}

/// What a replicated change waits for.
pub(super) enum WaitFor {
    /// The receiver is no longer a target.
    Nothing,
    /// The receiver has to apply it.
    Acknowledgement,
    /// The receiver lags behind, and the master has to decide about it.
    MasterDecision,
}

/// All links of a server.
#[derive(Default)]
pub(super) struct ReplicationLinks(Mutex<BTreeMap<ServerName, Arc<ReplicationLink>>>);

impl ReplicationLink {
    /// Whether messages no longer arrive. Set before the server collects the unreachable backups.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// The id of the next message. It counts as unacknowledged from now on.
    pub(super) fn reserve(&self) -> u64 {
        let mut ids = self.ids.lock();
        ids.last += 1;
        let id = ids.last;
        ids.unacknowledged.insert(id);
        id
    }

    /// The id of the last message.
    pub(super) fn last_id(&self) -> u64 {
        self.ids.lock().last
    }

    /// Sends a push that was applied.
    pub(super) fn send_push(&self, id: u64, parts: Vec<wire::ReplicatedPart>, push: wire::Push) {
        let replicated = wire::ReplicatedPush { id, parts, push: Some(push) };
        self.send(wire::from_primary::Message::Push(replicated));
    }

    pub(super) fn cancel_sync(&self, partition: PartitionId, sync_id: SyncId) {
        let cancelled = wire::SyncCancelled { partition: partition.number(), sync_id: sync_id.0 };
        self.send(wire::from_primary::Message::Cancelled(cancelled));
    }

    /// Sends a piece of a partition once there is room; returns whether the link is intact.
    pub(super) async fn send_piece(&self, piece: wire::SyncPiece) -> bool {
        match self.pieces.acquire().await {
            Ok(permit) => permit.forget(),
            Err(_) => return false,
        }
        self.send(wire::from_primary::Message::Piece(piece));
        !self.is_broken()
    }

    /// Waits until no other sync sends pieces, in the order of requests.
    pub(super) async fn lock_sender(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.sender.lock().await
    }

    /// Waits until the receiver has taken in all pieces, or the link is broken.
    pub(super) async fn wait_for_pieces(&self) {
        // The permits are released at once.
        let _ = self.pieces.acquire_many(MAX_PIECES as u32).await;
    }

    /// Waits until the receiver has applied everything up to a message, or the wait has no purpose any more. `condition`
    /// says what there is to wait for.
    pub(super) async fn wait_until_applied(&self, id: u64, condition: impl Fn() -> WaitFor) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match condition() {
                WaitFor::Nothing => return,
                WaitFor::Acknowledgement if self.is_acknowledged(id) => return,
                WaitFor::Acknowledgement | WaitFor::MasterDecision => {}
            }
            changed.await;
        }
    }

    /// Lets waiters check their conditions again.
    pub(super) fn notify(&self) {
        self.changed.notify_waiters();
    }

    fn is_acknowledged(&self, id: u64) -> bool {
        self.ids.lock().unacknowledged.first().is_none_or(|first| *first > id)
    }

    /// Whether too many bytes wait for syncs to add more.
    pub(super) fn is_full(&self) -> bool {
        self.queued_bytes.load(Ordering::Relaxed) > MAX_QUEUE
    }

    fn send(&self, message: wire::from_primary::Message) {
        let message = wire::FromPrimary { message: Some(message) };
        self.queued_bytes.fetch_add(message.encoded_len(), Ordering::Relaxed);
        // The send fails only on a broken link, which is reported separately.
        let _ = self.messages.send(message);
    }

    /// Acts as if this many bytes waited to be sent.
    #[cfg(test)]
    pub(super) fn fill(&self, bytes: usize) {
        self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes a message off the queue.
    fn dequeue(&self, message: wire::FromPrimary) -> wire::FromPrimary {
        self.queued_bytes.fetch_sub(message.encoded_len(), Ordering::Relaxed);
        message
    }

    fn acknowledge(&self, id: u64) {
        self.ids.lock().unacknowledged.remove(&id);
        self.notify();
    }
}

impl fmt::Display for ReplicationLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.ids.lock();
        let state = if self.is_broken() { "broken" } else { "intact" };
        let queued = self.queued_bytes.load(Ordering::Relaxed);
        let (to, last, unacknowledged) = (&self.to, ids.last, &ids.unacknowledged);
        write!(f, "link to {to} {state}, {last} sent, unacknowledged {unacknowledged:?}, {queued} bytes queued")
    }
}

impl ReplicationLinks {
    /// All links that are not broken.
    pub(super) fn all(&self) -> Vec<Arc<ReplicationLink>> {
        self.0.lock().values().cloned().collect()
    }
}

impl Server {
    /// The link to a server; a new one if there is none.
    pub(super) fn link(&self, to: &master::Server) -> Arc<ReplicationLink> {
        let name = ServerName::of(to);
        let mut links = self.0.links.0.lock();
        if let Some(link) = links.get(&name) {
            return link.clone();
        }
        let (messages, outgoing) = mpsc::unbounded_channel();
        let link = Arc::new(ReplicationLink {
            to: name.clone(),
            messages,
            queued_bytes: AtomicUsize::new(0),
            ids: Mutex::default(),
            changed: Notify::new(),
            pieces: tokio::sync::Semaphore::new(MAX_PIECES),
            sender: tokio::sync::Mutex::default(),
            is_broken: AtomicBool::new(false),
        });
        links.insert(name, link.clone());
        tokio::spawn(self.clone().run_link(link.clone(), to.address.clone(), outgoing));
        link
    }

    /// Sends messages and handles replies until the link breaks.
    async fn run_link(
        self,
        link: Arc<ReplicationLink>,
        address: String,
        outgoing: mpsc::UnboundedReceiver<wire::FromPrimary>,
    ) {
        let ended = self.exchange(&link, &address, outgoing).await;
        let why = ended.err().map_or_else(|| "the receiver closed it".to_owned(), |error| error.to_string());
        tracing::warn!(to = %link.to, why, "a replication link is broken");
        link.is_broken.store(true, Ordering::Release);
        link.pieces.close();
        let mut links = self.0.links.0.lock();
        if links.get(&link.to).is_some_and(|known| Arc::ptr_eq(known, &link)) {
            links.remove(&link.to);
        }
        drop(links);
        self.report_broken_link(&link, &why);
    }

    async fn exchange(
        &self,
        link: &Arc<ReplicationLink>,
        address: &str,
        outgoing: mpsc::UnboundedReceiver<wire::FromPrimary>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let channel = self.0.dialer.endpoint(address)?.connect().await?;
        let mut client = ParameterServerClient::with_interceptor(channel, Token::carried(self.0.token.as_ref()))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let queue = Arc::clone(link);
        let outgoing = UnboundedReceiverStream::new(outgoing).map(move |message| queue.dequeue(message));
        let mut replies = client.replicate(link.to.call_target().call(outgoing)).await?.into_inner();
        while let Some(reply) = replies.message().await? {
            match reply.message {
                Some(wire::from_backup::Message::Applied(id)) => link.acknowledge(id),
                Some(wire::from_backup::Message::PartlyApplied(partly)) => {
                    self.mark_lagging(link, &partly.rejected);
                    link.acknowledge(partly.id);
                }
                Some(wire::from_backup::Message::PiecesReceived(pieces)) => link.pieces.add_permits(pieces as usize),
                Some(wire::from_backup::Message::Completed(completed)) => self.complete_sync(link, &completed),
                Some(wire::from_backup::Message::Rejected(rejected)) => self.fail_rejected_sync(link, &rejected),
                None => {}
            }
        }
        Ok(())
    }
}
