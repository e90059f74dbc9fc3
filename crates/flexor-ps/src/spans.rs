//! Sets of positions stored as ranges. Memory grows with the number of gaps, not of positions.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub(crate) struct Spans {
    /// The end of each range by its first position; no two ranges touch.
    ends: BTreeMap<u64, u64>,
}

impl Spans {
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(first, end)| *first..*end)
    }

    /// Adds positions; some may be present already.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
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
    pub(crate) fn remove(&mut self, range: Range<u64>) {
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
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self.last_touching(range).is_some_and(|(first, end)| first <= range.start && range.end <= end)
    }

    /// Whether the set contains any position of the range.
    pub(crate) fn touches(&self, range: &Range<u64>) -> bool {
        self.last_touching(range).is_some()
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
                let list: Vec<(u64, u64)> = spans.clone().into();
                prop_assert!(list.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }
}
