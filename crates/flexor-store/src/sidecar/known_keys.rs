//! The keys that are known to exist, so that a WAIT for them can be answered while the master is unreachable.
//!
//! The set is bounded: it drops the keys that were not shown for longest, which belong to old rounds.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

/// The most keys.
const MAX_KEYS: usize = 100_000;
/// The limit for the bytes of all keys.
const MAX_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
pub(super) struct KnownKeys {
    /// When each key was last shown, as a count of insertions.
    by_key: HashMap<Bytes, u64>,
    by_time: BTreeMap<u64, Bytes>,
    insertions: u64,
    bytes: usize,
}

impl KnownKeys {
    /// Adds a key that an answer has shown. The name is copied, because it may be a slice of a large message.
    pub(super) fn insert(&mut self, key: &Bytes) {
        self.insertions += 1;
        let kept = match self.by_key.get_mut(key).map(|time| std::mem::replace(time, self.insertions)) {
            Some(before) => self.by_time.remove(&before).unwrap_or_default(),
            None => {
                let own = Bytes::copy_from_slice(key);
                self.bytes += own.len();
                self.by_key.insert(own.clone(), self.insertions);
                own
            }
        };
        self.by_time.insert(self.insertions, kept);
        while (self.by_key.len() > MAX_KEYS || self.bytes > MAX_BYTES)
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.bytes -= oldest.len();
            self.by_key.remove(&oldest);
        }
    }

    /// Removes a key that an answer has shown to be deleted.
    pub(super) fn remove(&mut self, key: &[u8]) {
        if let Some((key, time)) = self.by_key.remove_entry(key) {
            self.bytes -= key.len();
            self.by_time.remove(&time);
        }
    }

    /// Whether all of these keys are known to exist.
    pub(super) fn contains_all(&self, keys: &[Bytes]) -> bool {
        keys.iter().all(|key| self.by_key.contains_key(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Bytes {
        Bytes::from(format!("/key/{number}"))
    }

    #[test]
    fn a_key_is_known_until_it_is_deleted() {
        let mut seen = KnownKeys::default();
        seen.insert(&key(1));
        seen.insert(&key(2));
        seen.insert(&key(1));
        assert!(seen.contains_all(&[key(1), key(2)]));
        seen.remove(&key(1));
        seen.remove(&key(1));
        assert!(seen.contains_all(&[key(2)]) && !seen.contains_all(&[key(1), key(2)]));
        assert_eq!((seen.by_time.len(), seen.bytes), (1, key(2).len()));
    }

    #[test]
    fn the_keys_not_shown_for_longest_make_room() {
        let mut seen = KnownKeys::default();
        (0..MAX_KEYS).for_each(|number| seen.insert(&key(number)));
        seen.insert(&key(0));
        seen.insert(&key(MAX_KEYS));
        assert!(seen.contains_all(&[key(0), key(2), key(MAX_KEYS)]) && !seen.contains_all(&[key(1)]));
        assert_eq!((seen.by_key.len(), seen.by_time.len()), (MAX_KEYS, MAX_KEYS));
    }

    #[test]
    fn long_keys_are_bounded_by_their_bytes() {
        let mut seen = KnownKeys::default();
        for number in 0..2000 {
            seen.insert(&Bytes::from(format!("{number:08192}")));
        }
        assert!(seen.bytes <= MAX_BYTES && seen.by_key.len() == MAX_BYTES / 8192);
    }
}
