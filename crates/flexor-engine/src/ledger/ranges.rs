//! Sets of batches, stored as ranges. An epoch of a thousand million records costs as much memory as it has gaps.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Consecutive batches of one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Batches {
    /// From 0.
    pub first: u64,
    pub count: u64,
}

impl Batches {
    pub fn new(first: u64, count: u64) -> Self {
        Self { first, count }
    }

    /// The number behind the last batch. It saturates: a range from outside may exceed all numbers.
    pub fn end(self) -> u64 {
        self.first.saturating_add(self.count)
    }

    fn until(first: u64, end: u64) -> Self {
        Self { first, count: end - first }
    }
}

impl fmt::Display for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "batch {}", self.first),
            _ => write!(f, "batches {} to {}", self.first, self.end().saturating_sub(1)),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Batches>", into = "Vec<Batches>")]
pub struct Ranges {
    /// End by first batch; no two ranges touch.
    ends: BTreeMap<u64, u64>,
    count: u64,
}

impl Ranges {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn iter(&self) -> impl Iterator<Item = Batches> + '_ {
        self.ends.iter().map(|(first, end)| Batches::until(*first, *end))
    }

    /// Adds batches. Batches that are in the set already stay.
    pub fn insert(&mut self, batches: Batches) {
        let (mut first, mut end) = (batches.first, batches.end());
        if first == end {
            return;
        }
        while let Some((&from, &to)) = self.ends.range(..=end).next_back().filter(|(_, to)| **to >= first) {
            self.ends.remove(&from);
            self.count -= to - from;
            (first, end) = (first.min(from), end.max(to));
        }
        self.ends.insert(first, end);
        self.count += end - first;
    }

    /// Removes the given batches, and returns those that were in the set.
    pub fn remove(&mut self, batches: Batches) -> Ranges {
        let taken = self.within(batches);
        for piece in taken.iter() {
            let found = self.ends.range(..=piece.first).next_back().map(|(first, end)| (*first, *end));
            let Some((first, end)) = found else { continue };
            self.ends.remove(&first);
            if first < piece.first {
                self.ends.insert(first, piece.first);
            }
            if piece.end() < end {
                self.ends.insert(piece.end(), end);
            }
            self.count -= piece.count;
        }
        taken
    }

    /// The intersection with a range.
    pub fn within(&self, batches: Batches) -> Ranges {
        let mut found = Ranges::default();
        let before = self.ends.range(..batches.first).next_back();
        let from = before.map_or(batches.first, |(first, _)| *first);
        for (&first, &end) in self.ends.range(from..batches.end()) {
            let (first, end) = (first.max(batches.first), end.min(batches.end()));
            if first < end {
                found.insert(Batches::until(first, end));
            }
        }
        found
    }

    /// Up to `most` consecutive batches from the beginning of the first range.
    pub fn first(&self, most: u64) -> Option<Batches> {
        let (&first, &end) = self.ends.first_key_value()?;
        Some(Batches::new(first, most.min(end - first))).filter(|batches| batches.count > 0)
    }

    /// Up to `most` consecutive batches from the end of the last range.
    pub fn last(&self, most: u64) -> Option<Batches> {
        let (&first, &end) = self.ends.last_key_value()?;
        Some(Batches::until(first.max(end.saturating_sub(most)), end)).filter(|batches| batches.count > 0)
    }

    /// The number behind the last batch.
    pub fn end(&self) -> u64 {
        self.ends.last_key_value().map_or(0, |(_, end)| *end)
    }
}

impl From<Vec<Batches>> for Ranges {
    fn from(list: Vec<Batches>) -> Self {
        let mut ranges = Ranges::default();
        list.into_iter().for_each(|batches| ranges.insert(batches));
        ranges
    }
}

impl From<Ranges> for Vec<Batches> {
    fn from(ranges: Ranges) -> Self {
        ranges.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn numbers(ranges: &Ranges) -> BTreeSet<u64> {
        ranges.iter().flat_map(|batches| batches.first..batches.end()).collect()
    }

    proptest! {
        #[test]
        fn ranges_are_the_set_of_their_numbers(
            steps in prop::collection::vec((0_u8..5, 0_u64..60, 0_u64..12), 0..60),
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (step, first, count) in steps {
                let batches = Batches::new(first, count);
                let these: BTreeSet<u64> = (first..batches.end()).collect();
                match step {
                    0 | 1 => {
                        ranges.insert(batches);
                        set.extend(&these);
                    }
                    2 => {
                        let taken = ranges.remove(batches);
                        prop_assert_eq!(numbers(&taken), set.intersection(&these).copied().collect());
                        set.retain(|number| !these.contains(number));
                    }
                    _ => {
                        let found = if step == 3 { ranges.first(count) } else { ranges.last(count) };
                        let edge = if step == 3 { set.first() } else { set.last() };
                        prop_assert_eq!(found.is_some(), count > 0 && !set.is_empty());
                        if let (Some(found), Some(edge)) = (found, edge) {
                            prop_assert!(found.count <= count && (found.first..found.end()).contains(edge));
                            prop_assert!((found.first..found.end()).all(|number| set.contains(&number)));
                        }
                    }
                }
                prop_assert_eq!(numbers(&ranges), set.clone());
                prop_assert_eq!(ranges.count(), set.len() as u64);
                let touching = ranges.ends.iter().zip(ranges.ends.iter().skip(1)).any(|((_, end), (next, _))| end >= next);
                prop_assert!(!touching, "{:?}", ranges);
            }
        }
    }

    #[test]
    fn a_range_beyond_all_numbers_breaks_nothing() {
        let mut ranges = Ranges::default();
        ranges.insert(Batches::new(5, 10));
        assert_eq!(ranges.remove(Batches::new(7, u64::MAX)).count(), 8);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [Batches::new(5, 2)]);
    }
}
