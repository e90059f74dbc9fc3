//! Changes as data: to journal, to send, and to rebuild the same keyspace.
//!
//! Restoring depends neither on the order of changes nor on duplicates. A key takes the change with the highest sequence
//! number; an item of a queue exists if it was pushed and not popped. For that, deleted keys and popped items are
//! remembered from the first restored change until [`end_recovery`](Keyspace::end_recovery).

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::{Entry, Keyspace};
use crate::codec::Reply;
use crate::service::Outbox;

/// One change of one key or queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// The sequence number; unique in the store.
    pub seq: u64,
    /// The key, or the name of the queue.
    pub key: Bytes,
    pub change: Change,
}

/// A change of a key or a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key has this value.
    Set(Bytes),
    Deleted,
    /// The item was appended to the queue.
    Pushed(Bytes),
    /// The first item of the queue was removed.
    Popped {
        /// The sequence number of the change that had pushed the item.
        pushed: u64,
    },
}

/// Deleted keys and popped items, which late changes must not restore.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    deleted: HashMap<Bytes, u64>,
    popped: HashSet<u64>,
}

impl Recovery {
    pub(super) fn deleted(&mut self, key: Bytes, seq: u64) {
        let last = self.deleted.entry(key).or_default();
        *last = seq.max(*last);
    }

    pub(super) fn popped(&mut self, pushed: u64) {
        self.popped.insert(pushed);
    }
}

impl Keyspace {
    /// The sequence number of the last change.
    pub fn last_seq(&self) -> u64 {
        self.seq
    }

    /// Makes the sequence numbers of all later changes greater than `seq`.
    pub fn skip_to(&mut self, seq: u64) {
        self.seq = self.seq.max(seq);
    }

    /// The change that set the present value of a key.
    pub fn mutation_of(&self, key: &Bytes) -> Option<Mutation> {
        let entry = self.entries.get(key)?;
        Some(Mutation { seq: entry.seq, key: key.clone(), change: Change::Set(entry.value.clone()) })
    }

    /// Takes the recorded changes since the last call. Empty unless the keyspace is [recording](Keyspace::recording).
    pub fn take_mutations(&mut self) -> Vec<Mutation> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The changes that rebuild the present state, by sequence number.
    pub fn snapshot(&self) -> Vec<Mutation> {
        let keys = self.entries.iter().map(|(key, entry)| Mutation {
            seq: entry.seq,
            key: key.clone(),
            change: Change::Set(entry.value.clone()),
        });
        let items = self.queues.items().map(|(name, pushed, value)| Mutation {
            seq: pushed,
            key: name.clone(),
            change: Change::Pushed(value.clone()),
        });
        let mut all: Vec<_> = keys.chain(items).collect();
        all.sort_unstable_by_key(|mutation| mutation.seq);
        all
    }

    /// Applies a change from a journal or from another process, unless a later change is known. Returns whether it was
    /// applied. Wakes waiters and records nothing. Later changes get sequence numbers above all restored ones.
    pub fn restore(&mut self, mutation: Mutation, out: &mut Outbox) -> bool {
        let Mutation { seq, key, change } = mutation;
        self.seq = self.seq.max(seq);
        let recovery = self.recovery.get_or_insert_default();
        let last = self.entries.get(&key).map(|entry| entry.seq).max(recovery.deleted.get(&key).copied());
        match change {
            Change::Set(_) | Change::Deleted if last.is_some_and(|last| last >= seq) => false,
            Change::Set(value) => {
                self.entries.insert(key.clone(), Entry { value, seq });
                self.wake_all(&key, out);
                true
            }
            Change::Deleted => {
                recovery.deleted(key.clone(), seq);
                self.entries.remove(&key);
                true
            }
            Change::Pushed(_) if recovery.popped.contains(&seq) => false,
            Change::Pushed(value) => {
                let is_new = self.queues.insert(key.clone(), seq, value);
                if is_new {
                    self.waiters.item_pushed(&key, |conn| out.send(conn, Reply::StopWaiting));
                }
                is_new
            }
            Change::Popped { pushed } => {
                let is_new = recovery.popped.insert(pushed);
                self.queues.remove(&key, pushed) || is_new
            }
        }
    }

    /// Forgets deleted keys and popped items: no earlier change will be restored any more.
    pub fn end_recovery(&mut self) {
        self.recovery = None;
    }
}
