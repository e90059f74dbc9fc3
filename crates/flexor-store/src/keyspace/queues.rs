//! Queues: named like keys, but apart from them. A queue exists while it holds an item.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

/// All queues of a store. An item is known by the number of the change that pushed it, which rises from front to back.
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

    /// Puts an item at its place; false when it is there already.
    pub(super) fn insert(&mut self, name: Bytes, pushed: u64, value: Bytes) -> bool {
        let items = self.by_name.entry(name).or_default();
        let Err(place) = items.binary_search_by_key(&pushed, |item| item.0) else { return false };
        items.insert(place, (pushed, value));
        true
    }

    /// Takes an item out wherever it stands; whether it was there.
    pub(super) fn remove(&mut self, name: &[u8], pushed: u64) -> bool {
        let Some(items) = self.by_name.get_mut(name) else { return false };
        let Ok(place) = items.binary_search_by_key(&pushed, |item| item.0) else { return false };
        items.remove(place);
        if items.is_empty() {
            self.by_name.remove(name);
        }
        true
    }

    pub(super) fn names_with_prefix(&self, prefix: &[u8]) -> Vec<Bytes> {
        self.by_name.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    /// All items of all queues, with the queue's name and the number.
    pub(super) fn items(&self) -> impl Iterator<Item = (&Bytes, u64, &Bytes)> {
        self.by_name.iter().flat_map(|(name, items)| items.iter().map(move |(pushed, value)| (name, *pushed, value)))
    }
}
