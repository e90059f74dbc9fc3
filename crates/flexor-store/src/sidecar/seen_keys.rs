//! The keys that are known to be there, so that a WAIT for them can be answered while the master is away.
//!
//! Bounded: the keys that were not shown for longest go first, which are those of rounds long over.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

/// Most keys that are remembered.
const MAX_KEYS: usize = 100_000;
/// Most bytes of all keys together.
const MAX_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
pub(super) struct SeenKeys {
    /// When each key was last shown, counted in showings.
    by_key: HashMap<Bytes, u64>,
    by_time: BTreeMap<u64, Bytes>,
    showings: u64,
    bytes: usize,
}

impl SeenKeys {
    /// A key was shown to be there. The name is copied, because it may be a slice of a large message.
    pub(super) fn insert(&mut self, key: &Bytes) {
        self.showings += 1;
        let kept = match self.by_key.get_mut(key).map(|time| std::mem::replace(time, self.showings)) {
            Some(before) => self.by_time.remove(&before).unwrap_or_default(),
            None => {
                let own = Bytes::copy_from_slice(key);
                self.bytes += own.len();
                self.by_key.insert(own.clone(), self.showings);
                own
            }
        };
        self.by_time.insert(self.showings, kept);
        while (self.by_key.len() > MAX_KEYS || self.bytes > MAX_BYTES)
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.bytes -= oldest.len();
            self.by_key.remove(&oldest);
        }
    }

    /// A key was shown to be gone.
    pub(super) fn remove(&mut self, key: &[u8]) {
        if let Some((key, time)) = self.by_key.remove_entry(key) {
            self.bytes -= key.len();
            self.by_time.remove(&time);
        }
    }

    /// Whether all of these are known to be there.
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
    fn a_key_is_known_from_when_it_is_shown_until_it_is_gone() {
        let mut seen = SeenKeys::default();
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
        let mut seen = SeenKeys::default();
        (0..MAX_KEYS).for_each(|number| seen.insert(&key(number)));
        seen.insert(&key(0));
        seen.insert(&key(MAX_KEYS));
        assert!(seen.contains_all(&[key(0), key(2), key(MAX_KEYS)]) && !seen.contains_all(&[key(1)]));
        assert_eq!((seen.by_key.len(), seen.by_time.len()), (MAX_KEYS, MAX_KEYS));
    }

    #[test]
    fn long_keys_are_bounded_by_their_bytes() {
        let mut seen = SeenKeys::default();
        for number in 0..2000 {
            seen.insert(&Bytes::from(format!("{number:08192}")));
        }
        assert!(seen.bytes <= MAX_BYTES && seen.by_key.len() == MAX_BYTES / 8192);
    }
}
