//! One connection of a client: what it asked for and has not been answered.
//!
//! Operations are numbered when they are first sent. Of those that were sent, at most the last has a reply; what the
//! client asks for behind it is held until that has come. So replies cannot change places, and a master that remembers
//! the last reply of a connection can answer everything that is sent to it again. Stock clients wait for each reply
//! anyway.

use std::collections::VecDeque;

use bytes::Bytes;
use flexor_wire::master::v1::{self as wire, CloseConnection, NodeClock, OpenConnection, from_sidecar::Message};

use super::line::Line;
use super::operation::{Expects, Held, Operation};
use crate::codec::{Reply, Request};
use crate::service::{ConnId, Outbox};
use crate::sidecar::seen_keys::SeenKeys;

/// The requests of one connection that may wait for an answer. Only requests without a reply can become many.
const MAX_UNANSWERED: usize = 256 << 10;
/// Their bytes.
const MAX_UNANSWERED_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct Connection {
    /// As the master knows it.
    number: u64,
    /// None once the client is gone; what it had asked for is still carried out.
    client: Option<ConnId>,
    /// The node that the master says it speaks for, if it did.
    node: String,
    /// What the master says about the node's clock.
    clock: Option<NodeClock>,
    /// Sent and not answered, by rising numbers.
    sent: VecDeque<(u64, Operation)>,
    /// Not sent yet.
    held: Line,
    last_number: u64,
    /// Of all requests in `sent` and `held`.
    bytes: usize,
}

/// Where a connection can turn to: the master, while it listens, and what is known without it.
pub(super) struct Ways<'a> {
    /// None while the link is down.
    pub(super) master: Option<&'a mut Vec<Message>>,
    pub(super) seen: &'a SeenKeys,
    pub(super) out: &'a mut Outbox,
}

impl Connection {
    pub(super) fn new(number: u64, client: ConnId) -> Connection {
        Connection {
            number,
            client: Some(client),
            node: String::new(),
            clock: None,
            sent: VecDeque::new(),
            held: Line::default(),
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

    /// Bytes of requests that wait for an answer.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether everything was answered.
    pub(super) fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.held.len() == 0
    }

    /// Whether another request may be taken.
    pub(super) fn has_room(&self) -> bool {
        self.sent.len() + self.held.len() < MAX_UNANSWERED && self.bytes < MAX_UNANSWERED_BYTES
    }

    /// Whether a master that comes next must be told that it is closed.
    pub(super) fn must_be_closed(&self) -> bool {
        !self.is_idle() || !self.node.is_empty()
    }

    /// The client asks for something.
    pub(super) fn request(&mut self, request: Request, ways: &mut Ways<'_>) {
        // Without the master, what could not be answered here before cannot be now, nor what stands behind it.
        let is_stuck = ways.master.is_none() && self.held.has_replies();
        match request {
            Request::Validate => return,
            Request::CancelWait => self.cancel_wait(ways),
            Request::Ping { nonce } => self.held.push(Held::Here(Reply::Pong(nonce))),
            other => {
                if let Some(operation) = Operation::of(other) {
                    self.bytes += operation.request.len();
                    self.held.push(Held::Operation(operation));
                }
                if is_stuck {
                    return;
                }
            }
        }
        self.advance(ways);
    }

    /// The master answered an operation. A reply goes to the client only if it is still expected.
    pub(super) fn answered(&mut self, number: u64, reply: Bytes, ways: &mut Ways<'_>) {
        let Ok(place) = self.sent.binary_search_by_key(&number, |(number, _)| *number) else { return };
        let Some(operation) = self.drop_sent(place) else { return };
        // After its CANCEL_WAIT nothing more comes for a wait.
        if let Some(before) = place.checked_sub(1)
            && self.sent.get(before).is_some_and(|(_, before)| before.expects == Expects::Canceled)
        {
            self.drop_sent(before);
        }
        if let (true, Some(client)) = (operation.expects.is_reply(), self.client) {
            ways.out.send_bytes(client, reply);
        }
        self.advance(ways);
    }

    /// The client is gone. What it changes is still carried out; its waits end with the connection.
    pub(super) fn client_gone(&mut self, ways: &mut Ways<'_>) {
        self.client = None;
        self.cancel_wait(ways);
        self.bytes = 0;
        let mut keep = |operation: &mut Operation| {
            if operation.expects == Expects::Reply {
                operation.expects = Expects::Nothing;
            }
            let is_kept = operation.outlives_its_client();
            self.bytes += if is_kept { operation.request.len() } else { 0 };
            is_kept
        };
        self.sent.retain_mut(|(_, operation)| keep(operation));
        self.held.retain_operations(keep);
        self.advance(ways);
        if let Some(master) = &mut ways.master {
            master.push(self.close_message());
        }
    }

    /// How the connection is announced to a master.
    pub(super) fn open_message(&self) -> Message {
        let answered = self.sent.front().map_or(self.last_number, |(first, _)| first - 1);
        Message::Open(OpenConnection { connection: self.number, node: self.node.clone(), answered, clock: self.clock })
    }

    /// The link is there again: sends what was not answered once more, then what was held.
    pub(super) fn resume(&mut self, ways: &mut Ways<'_>) {
        if let Some(master) = &mut ways.master {
            let again = self.sent.iter().map(|(number, operation)| self.message(*number, operation));
            master.extend(again);
        }
        self.advance(ways);
        if let Some(master) = &mut ways.master
            && self.client.is_none()
        {
            master.push(self.close_message());
        }
    }

    /// Does what can be done: answers here, and sends to the master while it listens.
    pub(super) fn advance(&mut self, ways: &mut Ways<'_>) {
        if ways.master.is_none() {
            self.answer_sent_wait_here(ways);
        }
        while !self.owes_reply() {
            // Without the master a wait for keys that are known to be there need not stand in line behind requests
            // that have no reply.
            let next = match ways.master {
                Some(_) => 0,
                None => self.held.first_reply().unwrap_or(self.held.len()),
            };
            match self.held.remove(next) {
                None => return,
                Some(Held::Here(reply)) => self.reply(reply, ways),
                Some(Held::Operation(operation)) => match (&mut ways.master, &operation.expects) {
                    (Some(_), _) if self.awaits_cancellation() => {
                        return self.held.insert(next, Held::Operation(operation));
                    }
                    (Some(master), _) => {
                        self.last_number += 1;
                        master.push(self.message(self.last_number, &operation));
                        self.sent.push_back((self.last_number, operation));
                    }
                    (None, Expects::Keys(keys)) if ways.seen.contains_all(keys) => {
                        self.bytes -= operation.request.len();
                        self.reply(Reply::StopWaiting, ways);
                    }
                    (None, _) => return self.held.insert(next, Held::Operation(operation)),
                },
            }
        }
    }

    /// Whether the client waits for the reply to something that was sent.
    fn owes_reply(&self) -> bool {
        self.sent.back().is_some_and(|(_, last)| last.expects.is_reply())
    }

    /// Whether the next operation has to wait until the master has let go of a wait. Without a client all must be said
    /// before the connection is closed.
    fn awaits_cancellation(&self) -> bool {
        let last = self.sent.back();
        self.client.is_some() && last.is_some_and(|(_, last)| last.expects == Expects::Cancellation)
    }

    fn reply(&self, reply: Reply, ways: &mut Ways<'_>) {
        if let Some(client) = self.client {
            ways.out.send(client, reply);
        }
    }

    /// A wait that the master may know of is answered here if its keys are known to be there.
    fn answer_sent_wait_here(&mut self, ways: &mut Ways<'_>) {
        let is_answered = match self.sent.back() {
            Some((_, Operation { expects: Expects::Keys(keys), .. })) => ways.seen.contains_all(keys),
            Some(_) | None => false,
        };
        if is_answered {
            self.reply(Reply::StopWaiting, ways);
            self.cancel_sent_wait(ways);
        }
    }

    /// The client takes its wait back. It is told so at once; if the answer crosses, it is dropped on arrival.
    fn cancel_wait(&mut self, ways: &mut Ways<'_>) {
        if self.cancel_sent_wait(ways) {
            return self.reply(Reply::WaitCanceled, ways);
        }
        let canceled = Held::Here(Reply::WaitCanceled);
        let Some(place) = self.held.first_wait() else { return self.held.push(canceled) };
        match self.held.remove(place) {
            // The master never heard of it.
            Some(Held::Operation(Operation { request, expects: Expects::Keys(_) })) => {
                self.bytes -= request.len();
                self.held.insert(place, canceled);
            }
            // Coming to a barrier counts even when nobody waits there.
            Some(Held::Operation(Operation { request, .. })) => {
                let cancel = Operation::cancel_wait();
                self.bytes += cancel.request.len();
                let counted = Operation { request, expects: Expects::Canceled };
                self.held.insert(place, canceled);
                self.held.insert(place, Held::Operation(cancel));
                self.held.insert(place, Held::Operation(counted));
            }
            Some(Held::Here(_)) | None => {}
        }
    }

    /// Ends the wait that the master may know of, if there is one.
    fn cancel_sent_wait(&mut self, ways: &mut Ways<'_>) -> bool {
        let Some((_, wait)) = self.sent.back_mut().filter(|(_, last)| last.expects.is_wait()) else { return false };
        wait.expects = Expects::Canceled;
        let cancel = Operation::cancel_wait();
        self.bytes += cancel.request.len();
        self.last_number += 1;
        if let Some(master) = &mut ways.master {
            master.push(self.message(self.last_number, &cancel));
        }
        self.sent.push_back((self.last_number, cancel));
        true
    }

    fn drop_sent(&mut self, place: usize) -> Option<Operation> {
        let (_, operation) = self.sent.remove(place)?;
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
