//! Sets of numbers stored as ranges, such as records or versions. Memory grows with the number of gaps, not of numbers.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The most ranges of acknowledged versions of a partition that a worker reports and a master keeps. Where there are more,
/// the lowest gaps count as acknowledged.
pub const MOST_VERSION_RANGES: usize = 128;

/// A set of positions. As JSON it is a list of pairs: the first position of a range, and the one behind its last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Spans {
    /// The end of each range by its first position; no two ranges touch.
    ends: BTreeMap<u64, u64>,
}

impl Spans {
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(first, end)| *first..*end)
    }

    /// Adds positions; some may be present already.
    pub fn insert(&mut self, range: Range<u64>) {
        let Range { start: mut first, mut end } = range;
        if first >= end {
            return;
        }
        while let Some((&from, &to)) = self.ends.range(..=end).next_back().filter(|(_, to)| **to >= first) {
            self.ends.remove(&from);
            (first, end) = (first.min(from), end.max(to));
        }
        self.ends.insert(first, end);
    }

    /// Removes positions; some may be absent already.
    pub fn remove(&mut self, range: Range<u64>) {
        while let Some((first, end)) = self.last_touching(&range) {
            self.ends.remove(&first);
            if range.end < end {
                self.ends.insert(range.end, end);
            }
            if first < range.start {
                self.ends.insert(first, range.start);
            }
        }
    }

    /// Whether the set contains every position of the range.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self.last_touching(range).is_some_and(|(first, end)| first <= range.start && range.end <= end)
    }

    /// Whether the set contains any position of the range.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.last_touching(range).is_some()
    }

    /// Adds every position of another set.
    pub fn extend(&mut self, other: &Self) {
        other.iter().for_each(|range| self.insert(range));
    }

    /// The highest position.
    pub fn last(&self) -> Option<u64> {
        self.ends.last_key_value().map(|(_, end)| end - 1)
    }

    /// The number of ranges.
    pub fn ranges(&self) -> usize {
        self.ends.len()
    }

    /// Adds the positions between the lowest ranges, until there are at most so many ranges.
    pub fn join_lowest(&mut self, most: usize) {
        let excess = self.ends.len().saturating_sub(most.max(1));
        if let (Some(first), Some(end)) = (self.ends.keys().next(), self.ends.values().nth(excess)) {
            self.insert(*first..*end);
        }
    }

    /// The number of positions from this one on.
    pub fn count_from(&self, first: u64) -> u64 {
        let ranges = self.ends.iter().rev().take_while(|(_, end)| **end > first);
        ranges.map(|(from, end)| end - (*from).max(first)).sum()
    }

    /// Alternating numbers of absent and of present positions, from position 0. Small numbers, for messages.
    pub fn to_gaps(&self) -> Vec<u64> {
        let mut end_before = 0;
        let mut gaps = Vec::with_capacity(self.ends.len() * 2);
        for (first, end) in &self.ends {
            gaps.extend([first - end_before, end - first]);
            end_before = *end;
        }
        gaps
    }

    /// The set of such numbers. Positions beyond `u64::MAX` are left out.
    pub fn from_gaps(gaps: &[u64]) -> Self {
        let (mut spans, mut position) = (Self::default(), 0_u64);
        for pair in gaps.chunks_exact(2) {
            let first = position.saturating_add(pair[0]);
            position = first.saturating_add(pair[1]);
            spans.insert(first..position);
        }
        spans
    }

    fn last_touching(&self, range: &Range<u64>) -> Option<(u64, u64)> {
        if range.is_empty() {
            return None;
        }
        let (first, end) = self.ends.range(..range.end).next_back()?;
        (*end > range.start).then_some((*first, *end))
    }
}

impl From<Vec<(u64, u64)>> for Spans {
    fn from(list: Vec<(u64, u64)>) -> Self {
        let mut spans = Self::default();
        list.into_iter().for_each(|(first, end)| spans.insert(first..end));
        spans
    }
}

impl From<Spans> for Vec<(u64, u64)> {
    fn from(spans: Spans) -> Self {
        spans.ends.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn spans_behave_like_a_set_of_positions(
            steps in prop::collection::vec((any::<bool>(), 0_u64..60, 0_u64..12), 0..60),
        ) {
            let (mut spans, mut set) = (Spans::default(), BTreeSet::new());
            for (inserts, first, len) in steps {
                let range = first..first + len;
                prop_assert_eq!(spans.touches(&range), range.clone().any(|position| set.contains(&position)));
                prop_assert_eq!(spans.covers(&range), range.clone().all(|position| set.contains(&position)));
                if inserts {
                    set.extend(range.clone());
                    spans.insert(range);
                } else {
                    set.retain(|position| !range.contains(position));
                    spans.remove(range);
                }
                prop_assert_eq!(&spans.iter().flatten().collect::<BTreeSet<_>>(), &set);
                prop_assert_eq!(spans.last(), set.last().copied());
                prop_assert_eq!(spans.count_from(first), set.range(first..).count() as u64);
                prop_assert_eq!(&Spans::from_gaps(&spans.to_gaps()), &spans);
                let list: Vec<(u64, u64)> = spans.clone().into();
                prop_assert!(list.windows(2).all(|pair| pair[0].1 < pair[1].0));
                let mut joined = spans.clone();
                joined.join_lowest(3);
                prop_assert!(joined.ranges() == spans.ranges().min(3) && spans.iter().all(|range| joined.covers(&range)));
                prop_assert!(spans.ranges() > 3 || joined == spans);
            }
        }
    }

    #[test]
    fn gaps_beyond_the_largest_position_are_left_out() {
        let spans = Spans::from_gaps(&[3, 2, u64::MAX, 7, 1]);
        assert_eq!(Vec::from(spans), [(3, 5)]);
    }
}
