//! The way to another server that keeps copies: everything that is applied to their partitions goes there, in order.
//!
//! A message has its number before it is sent, taken under the lock of the partition it is about, so that "everything
//! that was applied so far" is a number. A link that breaks is not mended: the master is told which copies are out of
//! reach, and decides.

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

use super::numbers::CopyNumber;
use super::{Server, ServerName};
use crate::dial::MAX_MESSAGE;
use crate::placement::PartitionId;

/// How many pieces of partitions may be on their way at a time.
const PIECES: usize = 16;
/// How many bytes of changes may wait to be sent. What copies that are whole are sent is bounded by the clients that wait
/// for it; nobody waits for one that is on its way, so that over this it is given up.
pub(super) const MAX_QUEUE: usize = 256 << 20;

/// A link.
pub(super) struct Link {
    to: ServerName,
    messages: mpsc::UnboundedSender<wire::FromOwner>,
    /// How many bytes of messages nobody has taken yet to send them.
    queue: AtomicUsize,
    numbers: Mutex<Numbers>,
    /// Something was answered, or whoever waits should look again.
    moved: Notify,
    pieces: tokio::sync::Semaphore,
    /// Whoever sends pieces now.
    turn: tokio::sync::Mutex<()>,
    is_broken: AtomicBool,
}

#[derive(Default)]
struct Numbers {
    last: u64,
    open: BTreeSet<u64>,
}

/// What a change that was sent has to wait for.
pub(super) enum Wait {
    /// For nothing: nobody is to have the same any more.
    Over,
    /// Until the other end has applied it.
    Applied,
    /// Until the master has said what becomes of the other end, which has missed something.
    Decided,
}

/// All links of a server.
#[derive(Default)]
pub(super) struct Links(Mutex<BTreeMap<ServerName, Arc<Link>>>);

impl Link {
    /// Whether nothing arrives any more. Told before anybody looks for the copies that are out of reach.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// The number of the next message. It counts as on its way from now on.
    pub(super) fn reserve(&self) -> u64 {
        let mut numbers = self.numbers.lock();
        numbers.last += 1;
        let number = numbers.last;
        numbers.open.insert(number);
        number
    }

    /// The number of the last message.
    pub(super) fn last(&self) -> u64 {
        self.numbers.lock().last
    }

    /// Sends what was applied.
    pub(super) fn send(&self, id: u64, parts: Vec<wire::AppliedPart>, push: wire::Push) {
        let applied = wire::Applied { id, parts, push: Some(push) };
        self.say(wire::from_owner::Message::Applied(applied));
    }

    /// The copy is not wanted any more.
    pub(super) fn drop_copy(&self, partition: PartitionId, copy: CopyNumber) {
        let dropped = wire::CopyDropped { partition: partition.number(), copy: copy.0 };
        self.say(wire::from_owner::Message::Dropped(dropped));
    }

    /// Sends a piece of a partition, when there is room. Whether the link still stands.
    pub(super) async fn piece(&self, piece: wire::CopyPiece) -> bool {
        match self.pieces.acquire().await {
            Ok(permit) => permit.forget(),
            Err(_) => return false,
        }
        self.say(wire::from_owner::Message::Piece(piece));
        !self.is_broken()
    }

    /// Waits until nobody else sends pieces. In the order in which they asked.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Waits until the other end has dealt with all pieces, or the link is broken.
    pub(super) async fn all_taken(&self) {
        // Given back at once.
        let _ = self.pieces.acquire_many(PIECES as u32).await;
    }

    /// Waits until everything up to a message was applied there too, or until nobody has to wait for that any more.
    /// `look` says what there is to wait for.
    pub(super) async fn reached(&self, number: u64, look: impl Fn() -> Wait) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            match look() {
                Wait::Over => return,
                Wait::Applied if self.has_reached(number) => return,
                Wait::Applied | Wait::Decided => {}
            }
            moved.await;
        }
    }

    /// Whoever waits should look again.
    pub(super) fn stir(&self) {
        self.moved.notify_waiters();
    }

    fn has_reached(&self, number: u64) -> bool {
        self.numbers.lock().open.first().is_none_or(|open| *open > number)
    }

    /// Whether more waits to be sent than copies on their way may add to.
    pub(super) fn is_full(&self) -> bool {
        self.queue.load(Ordering::Relaxed) > MAX_QUEUE
    }

    fn say(&self, message: wire::from_owner::Message) {
        let message = wire::FromOwner { message: Some(message) };
        self.queue.fetch_add(message.encoded_len(), Ordering::Relaxed);
        // Nobody takes it only when the link is broken, which is told elsewhere.
        let _ = self.messages.send(message);
    }

    /// As if so much waited to be sent.
    #[cfg(test)]
    pub(super) fn fill(&self, bytes: usize) {
        self.queue.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A message is being sent.
    fn take(&self, message: wire::FromOwner) -> wire::FromOwner {
        self.queue.fetch_sub(message.encoded_len(), Ordering::Relaxed);
        message
    }

    fn heard(&self, number: u64) {
        self.numbers.lock().open.remove(&number);
        self.stir();
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.numbers.lock();
        let state = if self.is_broken() { "broken" } else { "stands" };
        let queue = self.queue.load(Ordering::Relaxed);
        let (to, last, open) = (&self.to, numbers.last, &numbers.open);
        write!(f, "link to {to} {state}, {last} sent, not answered {open:?}, {queue} bytes wait")
    }
}

impl Links {
    /// Those that stand.
    pub(super) fn all(&self) -> Vec<Arc<Link>> {
        self.0.lock().values().cloned().collect()
    }
}

impl Server {
    /// The link to a server; a new one if there is none that stands.
    pub(super) fn link(&self, to: &master::Server) -> Arc<Link> {
        let name = ServerName::of(to);
        let mut links = self.0.links.0.lock();
        if let Some(link) = links.get(&name) {
            return link.clone();
        }
        let (messages, outgoing) = mpsc::unbounded_channel();
        let link = Arc::new(Link {
            to: name.clone(),
            messages,
            queue: AtomicUsize::new(0),
            numbers: Mutex::default(),
            moved: Notify::new(),
            pieces: tokio::sync::Semaphore::new(PIECES),
            turn: tokio::sync::Mutex::default(),
            is_broken: AtomicBool::new(false),
        });
        links.insert(name, link.clone());
        tokio::spawn(self.clone().keep_link(link.clone(), to.address.clone(), outgoing));
        link
    }

    /// Carries messages to the other end and hears its answers, until the link breaks.
    async fn keep_link(self, link: Arc<Link>, address: String, outgoing: mpsc::UnboundedReceiver<wire::FromOwner>) {
        let ended = self.talk(&link, &address, outgoing).await;
        let why = ended.err().map_or_else(|| "the other end closed it".to_owned(), |error| error.to_string());
        tracing::warn!(to = %link.to, why, "the way to a copy is broken");
        link.is_broken.store(true, Ordering::Release);
        link.pieces.close();
        let mut links = self.0.links.0.lock();
        if links.get(&link.to).is_some_and(|known| Arc::ptr_eq(known, &link)) {
            links.remove(&link.to);
        }
        drop(links);
        self.report_out_of_reach(&link, &why);
    }

    async fn talk(
        &self,
        link: &Arc<Link>,
        address: &str,
        outgoing: mpsc::UnboundedReceiver<wire::FromOwner>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let channel = self.0.dialer.way_to(address)?.connect().await?;
        let mut client = ParameterServerClient::with_interceptor(channel, Token::carried(self.0.token.as_ref()))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let taking = Arc::clone(link);
        let outgoing = UnboundedReceiverStream::new(outgoing).map(move |message| taking.take(message));
        let mut answers = client.copy(link.to.addressee().call(outgoing)).await?.into_inner();
        while let Some(answer) = answers.message().await? {
            match answer.message {
                Some(wire::from_copy::Message::Applied(number)) => link.heard(number),
                Some(wire::from_copy::Message::InPart(in_part)) => {
                    self.copies_missed(link, &in_part.without);
                    link.heard(in_part.number);
                }
                Some(wire::from_copy::Message::Taken(pieces)) => link.pieces.add_permits(pieces as usize),
                Some(wire::from_copy::Message::Whole(whole)) => self.copy_is_whole(link, &whole),
                Some(wire::from_copy::Message::Refused(refused)) => self.copy_is_refused(link, &refused),
                None => {}
            }
        }
        Ok(())
    }
}
