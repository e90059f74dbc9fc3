//! Queues, which have names like keys but their own namespace. A queue exists while it has an item.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

/// All queues of a store. The sequence number of its push identifies an item; it rises from front to back.
#[derive(Debug, Default)]
pub(super) struct Queues {
    by_name: BTreeMap<Bytes, VecDeque<(u64, Bytes)>>,
}

impl Queues {
    pub(super) fn len(&self, name: &[u8]) -> usize {
        self.by_name.get(name).map_or(0, VecDeque::len)
    }

    pub(super) fn push(&mut self, name: Bytes, pushed: u64, value: Bytes) {
        self.by_name.entry(name).or_default().push_back((pushed, value));
    }

    pub(super) fn pop(&mut self, name: &[u8]) -> Option<(u64, Bytes)> {
        let items = self.by_name.get_mut(name)?;
        let item = items.pop_front();
        if items.is_empty() {
            self.by_name.remove(name);
        }
        item
    }

    /// Inserts an item in order. Returns false if it exists already.
    pub(super) fn insert(&mut self, name: Bytes, pushed: u64, value: Bytes) -> bool {
        let items = self.by_name.entry(name).or_default();
        let Err(index) = items.binary_search_by_key(&pushed, |item| item.0) else { return false };
        items.insert(index, (pushed, value));
        true
    }

    /// Removes an item at any position. Returns whether it existed.
    pub(super) fn remove(&mut self, name: &[u8], pushed: u64) -> bool {
        let Some(items) = self.by_name.get_mut(name) else { return false };
        let Ok(index) = items.binary_search_by_key(&pushed, |item| item.0) else { return false };
        items.remove(index);
        if items.is_empty() {
            self.by_name.remove(name);
        }
        true
    }

    pub(super) fn names_with_prefix(&self, prefix: &[u8]) -> Vec<Bytes> {
        self.by_name.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    /// All items of all queues, with the name of the queue and the sequence number of the push.
    pub(super) fn items(&self) -> impl Iterator<Item = (&Bytes, u64, &Bytes)> {
        self.by_name.iter().flat_map(|(name, items)| items.iter().map(move |(pushed, value)| (name, *pushed, value)))
    }
}
