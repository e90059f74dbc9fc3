//! The changes that answers have shown and that the master has not made durable yet: a crash of the master may lose them.
//!
//! The sidecar sends them to the next master, which takes over those that its journal lacks. For a key the latest change
//! is enough; all changes of queues are kept.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use flexor_wire::master::v1::KeyResult;
use tracing::warn;

/// The limit for all results, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// The assumed memory of a result besides its key and value, in bytes.
const OVERHEAD: usize = 128;

#[derive(Debug, Default)]
pub(super) struct UndurableResults {
    by_seq: BTreeMap<u64, KeyResult>,
    /// The sequence number of the latest change of each key, without queues.
    latest: HashMap<Bytes, u64>,
    durable: u64,
    bytes: usize,
    /// Results were dropped, which is logged once until there is room again.
    is_overfull: bool,
}

impl UndurableResults {
    /// Keeps a result, unless it is durable or a later result of the key is kept.
    pub(super) fn keep(&mut self, result: KeyResult) {
        if result.seq <= self.durable || self.by_seq.contains_key(&result.seq) {
            return;
        }
        if is_of_key(&result) {
            match self.latest.get(&result.key).copied() {
                Some(latest) if latest > result.seq => return,
                Some(earlier) => self.forget(earlier),
                None => {}
            }
        }
        // A slice of a received message would keep all of that message alive.
        let own = |bytes: Bytes| Bytes::copy_from_slice(&bytes);
        let KeyResult { seq, key, value, pushed, popped } = result;
        let result = KeyResult { seq, key: own(key), value: value.map(own), pushed: pushed.map(own), popped };
        if is_of_key(&result) {
            self.latest.insert(result.key.clone(), seq);
        }
        self.bytes += cost(&result);
        self.by_seq.insert(seq, result);
        self.make_room();
    }

    /// Forgets all results up to a sequence number, which are durable.
    pub(super) fn forget_durable(&mut self, seq: u64) {
        self.durable = self.durable.max(seq);
        while let Some((&first, _)) = self.by_seq.first_key_value()
            && first <= self.durable
        {
            self.forget(first);
        }
        self.is_overfull &= self.bytes > MAX_BYTES / 2;
    }

    /// All results by sequence number.
    pub(super) fn all(&self) -> impl Iterator<Item = &KeyResult> {
        self.by_seq.values()
    }

    fn make_room(&mut self) {
        while self.bytes > MAX_BYTES
            && let Some((&oldest, _)) = self.by_seq.first_key_value()
        {
            self.forget(oldest);
            if !std::mem::replace(&mut self.is_overfull, true) {
                warn!(
                    limit = MAX_BYTES,
                    seq = oldest,
                    "the master has made nothing durable for too long: results that it may need after a crash are \
                     dropped, oldest first; look at its journal"
                );
            }
        }
    }

    fn forget(&mut self, seq: u64) {
        let Some(result) = self.by_seq.remove(&seq) else { return };
        self.bytes -= cost(&result);
        if self.latest.get(&result.key) == Some(&seq) {
            self.latest.remove(&result.key);
        }
    }
}

/// Whether a result is about the value of a key and not about an item of a queue.
pub(super) fn is_of_key(result: &KeyResult) -> bool {
    result.pushed.is_none() && result.popped.is_none()
}

fn cost(result: &KeyResult) -> usize {
    OVERHEAD + result.key.len() + result.value.as_ref().or(result.pushed.as_ref()).map_or(0, Bytes::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(seq: u64, key: &'static str, value: impl Into<Bytes>) -> KeyResult {
        KeyResult { seq, key: key.into(), value: Some(value.into()), ..KeyResult::default() }
    }

    fn numbers(kept: &UndurableResults) -> Vec<u64> {
        kept.all().map(|result| result.seq).collect()
    }

    #[test]
    fn the_latest_change_of_a_key_is_kept_until_it_is_durable() {
        let mut kept = UndurableResults::default();
        for result in [set(3, "a", "1"), set(5, "a", "2"), set(4, "a", "late"), set(7, "b", "3"), set(7, "b", "3")] {
            kept.keep(result);
        }
        assert_eq!(numbers(&kept), [5, 7]);
        kept.forget_durable(5);
        kept.keep(set(5, "a", "2"));
        assert_eq!(numbers(&kept), [7]);
        kept.forget_durable(9);
        assert_eq!((kept.bytes, kept.latest.len()), (0, 0));
    }

    #[test]
    fn every_change_of_a_queue_is_kept() {
        let mut kept = UndurableResults::default();
        let of_queue = |seq| KeyResult { seq, key: "q".into(), ..KeyResult::default() };
        kept.keep(set(1, "q", "a key of the same name"));
        kept.keep(KeyResult { pushed: Some("one".into()), ..of_queue(2) });
        kept.keep(KeyResult { pushed: Some("two".into()), ..of_queue(3) });
        kept.keep(KeyResult { popped: Some(2), ..of_queue(4) });
        assert_eq!(numbers(&kept), [1, 2, 3, 4]);
        kept.keep(KeyResult { value: None, ..of_queue(5) });
        assert_eq!(numbers(&kept), [2, 3, 4, 5], "the key was deleted, the queue was not");
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_go_first() {
        let mut kept = UndurableResults::default();
        let large = Bytes::from(vec![0; MAX_BYTES / 4]);
        for (seq, key) in (1..).zip(["a", "b", "c", "d", "e"]) {
            kept.keep(set(seq, key, large.clone()));
        }
        assert_eq!(numbers(&kept), [3, 4, 5]);
        assert!(kept.bytes <= MAX_BYTES && kept.is_overfull);
        kept.forget_durable(4);
        assert!(!kept.is_overfull);
    }
}
