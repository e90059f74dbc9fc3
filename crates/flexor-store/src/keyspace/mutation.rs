//! Changes as data: to write down, to send on, and to build the same keyspace from again.
//!
//! Restoring does not depend on the order in which changes come, nor on how often each does: a key takes the change
//! with the highest number, a queue's item is there when it was pushed and not popped. For that, what is gone is
//! remembered from the first restored change until [`end_recovery`](Keyspace::end_recovery).

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::{Entry, Keyspace};
use crate::codec::Reply;
use crate::service::Outbox;

/// One change of one key or queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// Its place in the order of all changes of the store; no two have the same.
    pub seq: u64,
    /// The key, or the queue's name.
    pub key: Bytes,
    /// What happened to it.
    pub change: Change,
}

/// What can happen to a key or a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key has this value.
    Set(Bytes),
    /// The key is gone.
    Deleted,
    /// The queue got this item at its end.
    Pushed(Bytes),
    /// An item of the queue was taken.
    Popped {
        /// The number of the change that had pushed it.
        pushed: u64,
    },
}

/// What is gone and must not be brought back by a change that comes late.
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
    /// The number of the last change.
    pub fn last_seq(&self) -> u64 {
        self.seq
    }

    /// Makes the numbers of all later changes greater than this one.
    pub fn skip_to(&mut self, seq: u64) {
        self.seq = self.seq.max(seq);
    }

    /// The change that gave a key the value it has.
    pub fn mutation_of(&self, key: &Bytes) -> Option<Mutation> {
        let entry = self.entries.get(key)?;
        Some(Mutation { seq: entry.seq, key: key.clone(), change: Change::Set(entry.value.clone()) })
    }

    /// Takes the changes recorded since the last call; always empty unless the keyspace is
    /// [recording](Keyspace::recording).
    pub fn take_mutations(&mut self) -> Vec<Mutation> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The changes that build the present state from nothing, in the order they happened.
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

    /// Applies a change that happened elsewhere or before, unless a later one has been; whether it was applied. Waiters
    /// are woken; nothing is recorded. Changes made from here on get numbers above all that were restored.
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
                    self.waiters.item_came(&key, |conn| out.send(conn, Reply::StopWaiting));
                }
                is_new
            }
            Change::Popped { pushed } => {
                let is_new = recovery.popped.insert(pushed);
                self.queues.remove(&key, pushed) || is_new
            }
        }
    }

    /// Forgets what is gone: no change from before will be restored any more.
    pub fn end_recovery(&mut self) {
        self.recovery = None;
    }
}
