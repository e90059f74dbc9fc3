//! One connection of a client with its unanswered requests.
//!
//! Operations are numbered when they are first sent. Of the sent operations at most the last has a reply; later requests
//! are queued until that reply has arrived. So replies keep their order, and a master that remembers the last reply of a
//! connection can answer all repeated operations. torch's clients wait for each reply anyway.

use std::collections::VecDeque;

use bytes::Bytes;
use flexor_wire::master::v1::{self as wire, CloseConnection, NodeClock, OpenConnection, from_sidecar::Message};

use super::operation::{ExpectedAnswer, Operation, QueuedRequest};
use super::request_queue::RequestQueue;
use crate::codec::{Reply, Request};
use crate::service::{ConnId, Outbox};
use crate::sidecar::known_keys::KnownKeys;

/// The most unanswered requests of one connection. Only requests without a reply can become many.
const MAX_UNANSWERED: usize = 256 << 10;
/// The limit for the bytes of these requests.
const MAX_UNANSWERED_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct RelayedConnection {
    /// The number of the connection on the link.
    number: u64,
    /// None once the client has closed the connection. Its changes are still carried out.
    client: Option<ConnId>,
    /// The node that the connection speaks for, once the master has named it; else empty.
    node: String,
    /// The format of the node's clock, as the master has described it.
    clock: Option<NodeClock>,
    /// Operations that were sent and not answered, by rising numbers.
    sent: VecDeque<(u64, Operation)>,
    /// Requests that were not sent yet.
    queued: RequestQueue,
    last_number: u64,
    /// The bytes of all requests in `sent` and `queued`.
    bytes: usize,
}

/// What a connection needs of its relay: the messages to the master, the keys, and the bytes to clients.
pub(super) struct RelayContext<'a> {
    /// None while the link is down.
    pub(super) master: Option<&'a mut Vec<Message>>,
    pub(super) known_keys: &'a KnownKeys,
    /// Stands before every key of the clients.
    pub(super) prefix: &'a Bytes,
    pub(super) out: &'a mut Outbox,
}

impl RelayedConnection {
    pub(super) fn new(number: u64, client: ConnId) -> RelayedConnection {
        RelayedConnection {
            number,
            client: Some(client),
            node: String::new(),
            clock: None,
            sent: VecDeque::new(),
            queued: RequestQueue::default(),
            last_number: 0,
            bytes: 0,
        }
    }

    pub(super) fn client(&self) -> Option<ConnId> {
        self.client
    }

    pub(super) fn named(&mut self, node: String, clock: Option<NodeClock>) {
        self.node = node;
        self.clock = clock;
    }

    /// The bytes of unanswered requests.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether all requests were answered.
    pub(super) fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.queued.len() == 0
    }

    /// Whether the connection takes another request.
    pub(super) fn has_room(&self) -> bool {
        self.sent.len() + self.queued.len() < MAX_UNANSWERED && self.bytes < MAX_UNANSWERED_BYTES
    }

    /// Whether the next master has to learn that the connection is closed.
    pub(super) fn needs_close(&self) -> bool {
        !self.is_idle() || !self.node.is_empty()
    }

    /// Takes a request of the client.
    pub(super) fn request(&mut self, request: Request, context: &mut RelayContext<'_>) {
        // Without the master, a queued request that has a reply blocks all requests after it.
        let is_stuck = context.master.is_none() && self.queued.has_replies();
        match request {
            Request::Validate => return,
            Request::CancelWait => self.cancel_wait(context),
            Request::Ping { nonce } => self.queued.push(QueuedRequest::LocalReply(Reply::Pong(nonce))),
            other => {
                if let Some(operation) = Operation::of(other, context.prefix) {
                    self.bytes += operation.request.len();
                    self.queued.push(QueuedRequest::Operation(operation));
                }
                if is_stuck {
                    return;
                }
            }
        }
        self.advance(context);
    }

    /// Takes the answer of the master to an operation. The client gets the reply only if it still expects one.
    pub(super) fn answered(&mut self, number: u64, reply: Bytes, context: &mut RelayContext<'_>) {
        let Ok(index) = self.sent.binary_search_by_key(&number, |(number, _)| *number) else { return };
        let Some(operation) = self.drop_sent(index) else { return };
        // After the answer to a CANCEL_WAIT, its wait gets no answer any more.
        if let Some(before) = index.checked_sub(1)
            && self.sent.get(before).is_some_and(|(_, before)| before.expects == ExpectedAnswer::Canceled)
        {
            self.drop_sent(before);
        }
        if let (true, Some(client)) = (operation.expects.is_reply(), self.client) {
            context.out.send_bytes(client, operation.expects.translate(reply));
        }
        self.advance(context);
    }

    /// Takes note that the client has closed the connection. Its changes are still carried out; its waits end.
    pub(super) fn client_closed(&mut self, context: &mut RelayContext<'_>) {
        self.client = None;
        self.cancel_wait(context);
        self.bytes = 0;
        let mut keep = |operation: &mut Operation| {
            if operation.expects == ExpectedAnswer::Reply {
                operation.expects = ExpectedAnswer::Nothing;
            }
            let is_kept = operation.survives_client();
            self.bytes += if is_kept { operation.request.len() } else { 0 };
            is_kept
        };
        self.sent.retain_mut(|(_, operation)| keep(operation));
        self.queued.retain_operations(keep);
        self.advance(context);
        if let Some(master) = &mut context.master {
            master.push(self.close_message());
        }
    }

    /// The message that opens the connection at a master.
    pub(super) fn open_message(&self) -> Message {
        let answered = self.sent.front().map_or(self.last_number, |(first, _)| first - 1);
        Message::Open(OpenConnection { connection: self.number, node: self.node.clone(), answered, clock: self.clock })
    }

    /// Takes note that the link is up: sends unanswered operations again, then queued requests.
    pub(super) fn resume(&mut self, context: &mut RelayContext<'_>) {
        if let Some(master) = &mut context.master {
            let again = self.sent.iter().map(|(number, operation)| self.message(*number, operation));
            master.extend(again);
        }
        self.advance(context);
        if let Some(master) = &mut context.master
            && self.client.is_none()
        {
            master.push(self.close_message());
        }
    }

    /// Makes progress: answers locally where possible, and sends queued requests while the link is up.
    pub(super) fn advance(&mut self, context: &mut RelayContext<'_>) {
        if context.master.is_none() {
            self.answer_sent_wait_locally(context);
        }
        while !self.awaits_reply() {
            // Without the master, a wait for known keys need not wait for earlier requests that have no reply.
            let next = match context.master {
                Some(_) => 0,
                None => self.queued.first_reply().unwrap_or(self.queued.len()),
            };
            match self.queued.remove(next) {
                None => return,
                Some(QueuedRequest::LocalReply(reply)) => self.reply(reply, context),
                Some(QueuedRequest::Operation(operation)) => match (&mut context.master, &operation.expects) {
                    (Some(_), _) if self.awaits_cancellation() => {
                        return self.queued.insert(next, QueuedRequest::Operation(operation));
                    }
                    (Some(master), _) => {
                        self.last_number += 1;
                        master.push(self.message(self.last_number, &operation));
                        self.sent.push_back((self.last_number, operation));
                    }
                    (None, ExpectedAnswer::Keys(keys)) if context.known_keys.contains_all(keys) => {
                        self.bytes -= operation.request.len();
                        self.reply(Reply::StopWaiting, context);
                    }
                    (None, _) => return self.queued.insert(next, QueuedRequest::Operation(operation)),
                },
            }
        }
    }

    /// Whether the client waits for the reply to a sent operation.
    fn awaits_reply(&self) -> bool {
        self.sent.back().is_some_and(|(_, last)| last.expects.is_reply())
    }

    /// Whether the next operation has to wait until the master has cancelled a wait. Without a client, all operations are
    /// sent before the close.
    fn awaits_cancellation(&self) -> bool {
        let last = self.sent.back();
        self.client.is_some() && last.is_some_and(|(_, last)| last.expects == ExpectedAnswer::Cancellation)
    }

    fn reply(&self, reply: Reply, context: &mut RelayContext<'_>) {
        if let Some(client) = self.client {
            context.out.send(client, reply);
        }
    }

    /// Answers a sent wait locally if all its keys are known.
    fn answer_sent_wait_locally(&mut self, context: &mut RelayContext<'_>) {
        let is_answered = match self.sent.back() {
            Some((_, Operation { expects: ExpectedAnswer::Keys(keys), .. })) => context.known_keys.contains_all(keys),
            Some(_) | None => false,
        };
        if is_answered {
            self.reply(Reply::StopWaiting, context);
            self.cancel_sent_wait(context);
        }
    }

    /// Cancels the client's wait and confirms that at once. An answer to the wait that arrives later is dropped.
    fn cancel_wait(&mut self, context: &mut RelayContext<'_>) {
        if self.cancel_sent_wait(context) {
            return self.reply(Reply::WaitCanceled, context);
        }
        let canceled = QueuedRequest::LocalReply(Reply::WaitCanceled);
        let Some(index) = self.queued.first_wait() else { return self.queued.push(canceled) };
        match self.queued.remove(index) {
            // The wait was never sent.
            Some(QueuedRequest::Operation(Operation { request, expects: ExpectedAnswer::Keys(_) })) => {
                self.bytes -= request.len();
                self.queued.insert(index, canceled);
            }
            // Reaching a barrier counts even if the client does not wait there.
            Some(QueuedRequest::Operation(Operation { request, .. })) => {
                let cancel = Operation::cancel_wait();
                self.bytes += cancel.request.len();
                let counted = Operation { request, expects: ExpectedAnswer::Canceled };
                self.queued.insert(index, canceled);
                self.queued.insert(index, QueuedRequest::Operation(cancel));
                self.queued.insert(index, QueuedRequest::Operation(counted));
            }
            Some(QueuedRequest::LocalReply(_)) | None => {}
        }
    }

    /// Cancels a sent wait. Returns whether there was one.
    fn cancel_sent_wait(&mut self, context: &mut RelayContext<'_>) -> bool {
        let Some((_, wait)) = self.sent.back_mut().filter(|(_, last)| last.expects.is_wait()) else { return false };
        wait.expects = ExpectedAnswer::Canceled;
        let cancel = Operation::cancel_wait();
        self.bytes += cancel.request.len();
        self.last_number += 1;
        if let Some(master) = &mut context.master {
            master.push(self.message(self.last_number, &cancel));
        }
        self.sent.push_back((self.last_number, cancel));
        true
    }

    fn drop_sent(&mut self, index: usize) -> Option<Operation> {
        let (_, operation) = self.sent.remove(index)?;
        self.bytes -= operation.request.len();
        Some(operation)
    }

    fn message(&self, number: u64, operation: &Operation) -> Message {
        let request = operation.request.clone();
        Message::Operation(wire::Operation { connection: self.number, number, request })
    }

    fn close_message(&self) -> Message {
        Message::Close(CloseConnection { connection: self.number })
    }
}
