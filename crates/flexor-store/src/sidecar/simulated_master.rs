//! A small model of a correct master.
//!
//! It numbers changes, writes them to a journal that becomes durable later, and answers a repeated operation with its
//! first reply. After a crash it waits for all sidecars before it serves.
//!
//! A sidecar repeats an unanswered change after a crash. So no other client may have seen that change if the crash loses
//! it: an answer is held until all changes are durable that came over another link, wait at a barrier, or lost their
//! answer with a link. Before all sidecars have sent their kept changes, only what the journal had counts as durable.

mod store;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use flexor_wire::master::v1::{Answer, Durable, KeyResult, Welcome, from_sidecar, to_sidecar};

use self::store::{LinkConnection, bytes};
use crate::codec::{Reply, Request};

pub(super) use self::store::Store;

/// Represents the link of changes that may be unanswered.
const UNKNOWN_LINK: u64 = u64::MAX;

#[derive(Debug, Clone, Default)]
struct ConnectionState {
    /// The number of the last operation that was completed or begun.
    last: u64,
    /// The last reply; None while a wait goes on.
    reply: Option<Bytes>,
}

/// One operation in the journal: its changes, and the state of its connection.
#[derive(Debug, Clone)]
struct Record {
    changed: Vec<KeyResult>,
    conn: LinkConnection,
    state: ConnectionState,
}

pub(super) struct Master {
    generation: u64,
    store: Store,
    connections: BTreeMap<LinkConnection, ConnectionState>,
    journal: Vec<Record>,
    /// How many records are durable.
    durable: usize,
    /// The durable sequence number of the predecessor's journal.
    base: u64,
    /// The latest change that came over each link.
    latest: BTreeMap<u64, u64>,
    /// For each link that has sent Hello, the messages to send once a sequence number is durable.
    outgoing: BTreeMap<u64, VecDeque<(u64, to_sidecar::Message)>>,
    /// Links that have sent all kept changes. Nothing is served before all links have.
    ready: BTreeSet<u64>,
    links: usize,
    is_serving: bool,
    queued: Vec<(LinkConnection, u64, Request)>,
}

impl Master {
    pub(super) fn first(links: usize) -> Master {
        Master {
            generation: 1,
            store: Store::default(),
            connections: BTreeMap::new(),
            journal: Vec::new(),
            durable: 0,
            base: 0,
            latest: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            ready: BTreeSet::new(),
            links,
            is_serving: false,
            queued: Vec::new(),
        }
    }

    /// The master of a new process, rebuilt from the journal.
    pub(super) fn successor(&self) -> Master {
        let mut next = Master { generation: self.generation + 1, ..Master::first(self.links) };
        next.journal = self.journal[..self.durable].to_vec();
        next.durable = self.durable;
        next.base = self.durable_seq();
        for record in &next.journal {
            record.changed.iter().for_each(|result| next.store.restore(result));
            next.connections.insert(record.conn, record.state.clone());
        }
        next
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn write_journal(&mut self, records: usize) {
        self.durable = self.journal.len().min(self.durable + records);
        let seq = self.durable_seq();
        for link in self.ready.clone() {
            self.send(link, 0, to_sidecar::Message::Durable(Durable { seq }));
        }
    }

    pub(super) fn receive(&mut self, link: u64, message: from_sidecar::Message) {
        use from_sidecar::Message;
        match message {
            Message::Hello(_) => {
                self.outgoing.insert(link, VecDeque::new());
                let welcome = Welcome { generation: self.generation, durable_seq: self.durable_seq() };
                self.send(link, 0, to_sidecar::Message::Welcome(welcome));
            }
            Message::Kept(result) => {
                self.store.restore(&result);
                let latest = self.latest.entry(link).or_default();
                *latest = result.seq.max(*latest);
                if !self.is_serving {
                    self.journal.push(Record {
                        changed: vec![result],
                        conn: (link, 0),
                        state: ConnectionState::default(),
                    });
                }
            }
            Message::Open(open) => {
                let state = self.connections.entry((link, open.connection)).or_default();
                if open.answered > state.last {
                    *state = ConnectionState { last: open.answered, reply: None };
                }
            }
            Message::Ready(_) => {
                self.ready.insert(link);
                self.is_serving |= self.ready.len() == self.links;
                if self.is_serving {
                    for (conn, number, request) in std::mem::take(&mut self.queued) {
                        self.serve(conn, number, request);
                    }
                }
            }
            Message::Operation(operation) => {
                let (conn, request) = ((link, operation.connection), Request::parse(&operation.request).unwrap());
                if self.is_serving {
                    self.serve(conn, operation.number, request);
                } else {
                    self.queued.push((conn, operation.number, request));
                }
            }
            Message::Close(close) => self.store.cancel((link, close.connection)),
            Message::Heartbeat(_) => {}
        }
    }

    pub(super) fn link_lost(&mut self, link: u64) {
        self.outgoing.remove(&link);
        self.queued.retain(|((from, _), ..)| *from != link);
        let lost = self.latest.remove(&link).unwrap_or(0).max(self.latest.get(&UNKNOWN_LINK).copied().unwrap_or(0));
        self.latest.insert(UNKNOWN_LINK, lost);
        if !self.is_serving {
            self.ready.remove(&link);
        }
    }

    /// The messages that may be sent over a link, in order.
    pub(super) fn take_messages(&mut self, link: u64) -> Vec<to_sidecar::Message> {
        let durable = self.durable_seq();
        let Some(outgoing) = self.outgoing.get_mut(&link) else { return Vec::new() };
        let ready = outgoing.iter().take_while(|(until, _)| *until <= durable).count();
        outgoing.drain(..ready).map(|(_, message)| message).collect()
    }

    fn serve(&mut self, conn: LinkConnection, number: u64, request: Request) {
        let state = self.connections.get(&conn).cloned().unwrap_or_default();
        if number <= state.last {
            return self.serve_again(conn, number, request, state);
        }
        assert_eq!(number, state.last + 1, "operations are numbered without gaps");
        let is_wait = matches!(request, Request::Wait { .. } | Request::Barrier { .. });
        let applied = self.store.apply(conn, request);
        let reply = if is_wait { None } else { Some(applied.reply.unwrap_or_default()) };
        self.settle(conn, ConnectionState { last: number, reply: reply.clone() }, applied.changed.clone());
        if let Some(reply) = reply {
            self.answer(conn, number, reply, [applied.changed, applied.shown].concat());
        }
        self.wake();
    }

    fn serve_again(&mut self, conn: LinkConnection, number: u64, request: Request, state: ConnectionState) {
        match state.reply {
            _ if number < state.last => self.answer(conn, number, Bytes::new(), Vec::new()),
            Some(reply) => self.answer(conn, number, reply, Vec::new()),
            None => {
                self.store.wait_again(conn, request);
                self.wake();
            }
        }
    }

    fn wake(&mut self) {
        for (conn, shown) in self.store.take_finished_waits() {
            let reply = bytes(Reply::StopWaiting);
            let last = self.connections[&conn].last;
            self.settle(conn, ConnectionState { last, reply: Some(reply.clone()) }, Vec::new());
            self.answer(conn, last, reply, shown);
        }
    }

    fn settle(&mut self, conn: LinkConnection, state: ConnectionState, changed: Vec<KeyResult>) {
        if let Some(result) = changed.last() {
            let owner = if state.reply.is_some() { conn.0 } else { UNKNOWN_LINK };
            self.latest.insert(owner, result.seq);
        }
        self.connections.insert(conn, state.clone());
        self.journal.push(Record { changed, conn, state });
    }

    fn answer(&mut self, (link, connection): LinkConnection, number: u64, reply: Bytes, results: Vec<KeyResult>) {
        let foreign = self.latest.iter().filter(|(other, _)| **other != link).map(|(_, seq)| *seq).max();
        let answer = Answer { connection, number, reply, results };
        self.send(link, foreign.unwrap_or(0), to_sidecar::Message::Answer(answer));
    }

    fn send(&mut self, link: u64, once_durable: u64, message: to_sidecar::Message) {
        if let Some(outgoing) = self.outgoing.get_mut(&link) {
            outgoing.push_back((once_durable, message));
        }
    }

    fn durable_seq(&self) -> u64 {
        if !self.is_serving {
            return self.base;
        }
        let open = self.journal[self.durable..].iter().flat_map(|record| &record.changed);
        open.map(|result| result.seq - 1).min().unwrap_or(self.store.seq)
    }
}
