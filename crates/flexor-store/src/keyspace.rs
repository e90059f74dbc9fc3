//! The data of a store: keys, queues and waiters. No sockets, no clock.
//!
//! [`Keyspace`] answers requests exactly as torch's own libuv server does, and is the [`Service`] of a plain store. The
//! rendezvous store wraps it and uses the same keys through [`get`](Keyspace::get) and [`set`](Keyspace::set), which wake
//! waiters as requests do. Every change has a sequence number, can be recorded, and can be [restored](Keyspace::restore)
//! elsewhere.

mod decimal;
mod mutation;
mod queues;
mod requests;
mod waiters;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound;

use bytes::Bytes;

use self::mutation::Recovery;
use self::queues::Queues;
use self::waiters::Waiters;
use crate::codec::{Reply, Request};
use crate::service::{ConnId, Now, Outbox, Refused, Service};

pub use self::mutation::{Change, Mutation};

/// All keys, values, queues and waits of one store.
#[derive(Debug, Default)]
pub struct Keyspace {
    /// Ordered, so that a prefix is a range and lists come out the same every time.
    entries: BTreeMap<Bytes, Entry>,
    queues: Queues,
    waiters: Waiters,
    /// The sequence number of the last change.
    seq: u64,
    /// The changes since they were last taken, if the keyspace records them.
    recorded: Option<Vec<Mutation>>,
    /// Deleted keys and popped items, which late changes must not restore.
    recovery: Option<Recovery>,
}

#[derive(Debug)]
struct Entry {
    value: Bytes,
    /// The sequence number of the change that stored the value.
    seq: u64,
}

impl Keyspace {
    /// Creates an empty keyspace that records no changes.
    pub fn new() -> Keyspace {
        Keyspace::default()
    }

    /// Creates an empty keyspace that records changes for [`take_mutations`](Keyspace::take_mutations).
    pub fn recording() -> Keyspace {
        Keyspace { recorded: Some(Vec::new()), ..Keyspace::default() }
    }

    pub fn get(&self, key: &[u8]) -> Option<&Bytes> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Stores a value and wakes the waiters of the key.
    pub fn set(&mut self, key: Bytes, value: Bytes, out: &mut Outbox) {
        self.wake_all(&key, out);
        self.write(key, value);
    }

    /// Removes a key. Returns whether it existed.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let Some((key, _)) = self.entries.remove_entry(key) else { return false };
        let seq = self.next_seq();
        if let Some(recovery) = &mut self.recovery {
            recovery.deleted(key.clone(), seq);
        }
        self.record(seq, &key, || Change::Deleted);
        true
    }

    /// The keys with this prefix, in order.
    pub fn keys_with_prefix(&self, prefix: &[u8]) -> impl Iterator<Item = &Bytes> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.entries.range::<[u8], _>(from).map(|(key, _)| key).take_while(move |key| key.starts_with(prefix))
    }

    /// Removes the keys and queues with this prefix. Returns how many there were.
    pub fn remove_prefix(&mut self, prefix: &[u8]) -> usize {
        let keys: Vec<_> = self.keys_with_prefix(prefix).cloned().collect();
        keys.iter().for_each(|key| _ = self.delete(key));
        let queues = self.queues.names_with_prefix(prefix);
        for queue in &queues {
            while self.pop(queue).is_some() {}
        }
        keys.len() + queues.len()
    }

    /// The number of keys, without queues.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The missing keys of a connection's unanswered WAIT or BARRIER; none if the connection does not wait.
    pub fn waiting_for(&self, conn: ConnId) -> Option<Vec<Bytes>> {
        self.waiters.missing(conn)
    }

    fn write(&mut self, key: Bytes, value: Bytes) {
        let seq = self.next_seq();
        self.record(seq, &key, || Change::Set(value.clone()));
        self.entries.insert(key, Entry { value, seq });
    }

    fn push(&mut self, queue: Bytes, value: Bytes) {
        let seq = self.next_seq();
        self.record(seq, &queue, || Change::Pushed(value.clone()));
        self.queues.push(queue, seq, value);
    }

    fn pop(&mut self, queue: &Bytes) -> Option<Bytes> {
        let (pushed, value) = self.queues.pop(queue)?;
        let seq = self.next_seq();
        if let Some(recovery) = &mut self.recovery {
            recovery.popped(pushed);
        }
        self.record(seq, queue, || Change::Popped { pushed });
        Some(value)
    }

    fn wake_all(&mut self, key: &[u8], out: &mut Outbox) {
        self.waiters.key_set(key, |conn| out.send(conn, Reply::StopWaiting));
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn record(&mut self, seq: u64, key: &Bytes, change: impl FnOnce() -> Change) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push(Mutation { seq, key: key.clone(), change: change() });
        }
    }
}

impl Service for Keyspace {
    fn opened(&mut self, _: ConnId, _: SocketAddr, _: Now, _: &mut Outbox) {}

    fn request(&mut self, conn: ConnId, request: Request, _: Now, out: &mut Outbox) -> Result<(), Refused> {
        self.apply(conn, request, out)
    }

    fn closed(&mut self, conn: ConnId, _: Now, _: &mut Outbox) {
        self.waiters.cancel(conn);
    }

    fn tick(&mut self, _: Now, _: &mut Outbox) {}

    fn next_tick(&self) -> Option<Now> {
        None
    }
}
