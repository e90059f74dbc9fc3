//! One bit per row, to detect repeated keys of a push without sorting or hashing.

use super::RowNumber;

/// A bitmap over rows, cleared after each push.
#[derive(Debug, Default)]
pub(crate) struct RowMarks {
    marks: Vec<u64>,
}

impl RowMarks {
    /// Whether a row occurs more than once.
    pub(crate) fn has_duplicates(&mut self, rows: &[RowNumber]) -> bool {
        let most = rows.iter().max().map_or(0, |row| *row as usize / 64 + 1);
        if self.marks.len() < most {
            self.marks.resize(most, 0);
        }
        let mut has_duplicates = false;
        for row in rows {
            let (word, bit) = (*row as usize / 64, 1 << (row % 64));
            has_duplicates |= self.marks[word] & bit != 0;
            self.marks[word] |= bit;
        }
        rows.iter().for_each(|row| self.marks[*row as usize / 64] = 0);
        has_duplicates
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_repeated_row_is_detected_within_one_push_only(
            pushes in prop::collection::vec(prop::collection::vec(0_u32..300, 0..20), 1..10),
        ) {
            let mut marks = RowMarks::default();
            for rows in pushes {
                let mut sorted = rows.clone();
                sorted.sort_unstable();
                sorted.dedup();
                prop_assert_eq!(marks.has_duplicates(&rows), sorted.len() < rows.len());
            }
        }
    }
}
