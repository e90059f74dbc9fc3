//! What a correct master does, in few words.
//!
//! It numbers changes, writes them to a journal that becomes durable later, answers an operation that it has seen
//! before with the reply it gave then, and after a crash waits for all sidecars before it serves.
//!
//! A change that a sidecar was not answered for will be asked for again after a crash. So it must not survive the crash
//! in what others were shown: an answer is held until every change is durable that came over another link, that waits
//! at a barrier, or whose answer may have been lost with a link. And nothing is called durable above what the journal
//! had before all sidecars have told what they kept.

mod store;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use flexor_wire::master::v1::{Answer, Durable, KeyResult, Welcome, from_sidecar, to_sidecar};

use self::store::{Seat, bytes};
use crate::codec::{Reply, Request};

pub(super) use self::store::Store;

/// Stands for the link of changes that nobody is known to have been answered for.
const NOBODY: u64 = u64::MAX;

#[derive(Debug, Clone, Default)]
struct Place {
    /// The number of the last operation that was done or begun.
    last: u64,
    /// The last reply; None while a wait goes on.
    reply: Option<Bytes>,
}

/// One operation as the journal has it: what it changed, and where its connection stands.
#[derive(Debug, Clone)]
struct Record {
    changed: Vec<KeyResult>,
    seat: Seat,
    place: Place,
}

pub(super) struct Master {
    generation: u64,
    store: Store,
    places: BTreeMap<Seat, Place>,
    journal: Vec<Record>,
    /// How many records are durable.
    durable: usize,
    /// What the journal of the predecessor made durable.
    base: u64,
    /// The latest change that came over each link.
    latest: BTreeMap<u64, u64>,
    /// For each link that has said Hello, what to say once this number is durable.
    outgoing: BTreeMap<u64, VecDeque<(u64, to_sidecar::Message)>>,
    /// Links that have told all they know. Nothing is served before all have.
    ready: BTreeSet<u64>,
    links: usize,
    is_serving: bool,
    held: Vec<(Seat, u64, Request)>,
}

impl Master {
    pub(super) fn first(links: usize) -> Master {
        Master {
            generation: 1,
            store: Store::default(),
            places: BTreeMap::new(),
            journal: Vec::new(),
            durable: 0,
            base: 0,
            latest: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            ready: BTreeSet::new(),
            links,
            is_serving: false,
            held: Vec::new(),
        }
    }

    /// What a new process makes of the journal.
    pub(super) fn successor(&self) -> Master {
        let mut next = Master { generation: self.generation + 1, ..Master::first(self.links) };
        next.journal = self.journal[..self.durable].to_vec();
        next.durable = self.durable;
        next.base = self.durable_seq();
        for record in &next.journal {
            record.changed.iter().for_each(|result| next.store.restore(result));
            next.places.insert(record.seat, record.place.clone());
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
            self.say(link, 0, to_sidecar::Message::Durable(Durable { seq }));
        }
    }

    pub(super) fn heard(&mut self, link: u64, message: from_sidecar::Message) {
        use from_sidecar::Message;
        match message {
            Message::Hello(_) => {
                self.outgoing.insert(link, VecDeque::new());
                let welcome = Welcome { generation: self.generation, durable_seq: self.durable_seq() };
                self.say(link, 0, to_sidecar::Message::Welcome(welcome));
            }
            Message::Kept(result) => {
                self.store.restore(&result);
                let latest = self.latest.entry(link).or_default();
                *latest = result.seq.max(*latest);
                if !self.is_serving {
                    self.journal.push(Record { changed: vec![result], seat: (link, 0), place: Place::default() });
                }
            }
            Message::Open(open) => {
                let place = self.places.entry((link, open.connection)).or_default();
                if open.answered > place.last {
                    *place = Place { last: open.answered, reply: None };
                }
            }
            Message::Ready(_) => {
                self.ready.insert(link);
                self.is_serving |= self.ready.len() == self.links;
                if self.is_serving {
                    for (seat, number, request) in std::mem::take(&mut self.held) {
                        self.serve(seat, number, request);
                    }
                }
            }
            Message::Operation(operation) => {
                let (seat, request) = ((link, operation.connection), Request::parse(&operation.request).unwrap());
                if self.is_serving {
                    self.serve(seat, operation.number, request);
                } else {
                    self.held.push((seat, operation.number, request));
                }
            }
            Message::Close(close) => self.store.leave((link, close.connection)),
            Message::Beat(_) => {}
        }
    }

    pub(super) fn link_lost(&mut self, link: u64) {
        self.outgoing.remove(&link);
        self.held.retain(|((from, _), ..)| *from != link);
        let lost = self.latest.remove(&link).unwrap_or(0).max(self.latest.get(&NOBODY).copied().unwrap_or(0));
        self.latest.insert(NOBODY, lost);
        if !self.is_serving {
            self.ready.remove(&link);
        }
    }

    /// What may be said over a link by now, in order.
    pub(super) fn take_messages(&mut self, link: u64) -> Vec<to_sidecar::Message> {
        let durable = self.durable_seq();
        let Some(outgoing) = self.outgoing.get_mut(&link) else { return Vec::new() };
        let ready = outgoing.iter().take_while(|(until, _)| *until <= durable).count();
        outgoing.drain(..ready).map(|(_, message)| message).collect()
    }

    fn serve(&mut self, seat: Seat, number: u64, request: Request) {
        let place = self.places.get(&seat).cloned().unwrap_or_default();
        if number <= place.last {
            return self.serve_again(seat, number, request, place);
        }
        assert_eq!(number, place.last + 1, "no operation is left out");
        let is_wait = matches!(request, Request::Wait { .. } | Request::Barrier { .. });
        let done = self.store.apply(seat, request);
        let reply = if is_wait { None } else { Some(done.reply.unwrap_or_default()) };
        self.settle(seat, Place { last: number, reply: reply.clone() }, done.changed.clone());
        if let Some(reply) = reply {
            self.answer(seat, number, reply, [done.changed, done.shown].concat());
        }
        self.wake();
    }

    fn serve_again(&mut self, seat: Seat, number: u64, request: Request, place: Place) {
        match place.reply {
            _ if number < place.last => self.answer(seat, number, Bytes::new(), Vec::new()),
            Some(reply) => self.answer(seat, number, reply, Vec::new()),
            None => {
                self.store.wait_again(seat, request);
                self.wake();
            }
        }
    }

    fn wake(&mut self) {
        for (seat, shown) in self.store.take_woken() {
            let reply = bytes(Reply::StopWaiting);
            let last = self.places[&seat].last;
            self.settle(seat, Place { last, reply: Some(reply.clone()) }, Vec::new());
            self.answer(seat, last, reply, shown);
        }
    }

    fn settle(&mut self, seat: Seat, place: Place, changed: Vec<KeyResult>) {
        if let Some(result) = changed.last() {
            let owner = if place.reply.is_some() { seat.0 } else { NOBODY };
            self.latest.insert(owner, result.seq);
        }
        self.places.insert(seat, place.clone());
        self.journal.push(Record { changed, seat, place });
    }

    fn answer(&mut self, (link, connection): Seat, number: u64, reply: Bytes, results: Vec<KeyResult>) {
        let foreign = self.latest.iter().filter(|(other, _)| **other != link).map(|(_, seq)| *seq).max();
        let answer = Answer { connection, number, reply, results };
        self.say(link, foreign.unwrap_or(0), to_sidecar::Message::Answer(answer));
    }

    fn say(&mut self, link: u64, once_durable: u64, message: to_sidecar::Message) {
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
