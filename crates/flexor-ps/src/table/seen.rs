//! Which rows a push has met already: the marks by which a repeated key is noticed without sorting or hashing.

use super::RowNumber;

/// A mark for each row; all are taken away before the next push.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    marks: Vec<u64>,
}

impl Seen {
    /// Whether a row is among them twice.
    pub(crate) fn any_twice(&mut self, rows: &[RowNumber]) -> bool {
        let most = rows.iter().max().map_or(0, |row| *row as usize / 64 + 1);
        if self.marks.len() < most {
            self.marks.resize(most, 0);
        }
        let mut twice = false;
        for row in rows {
            let (word, bit) = (*row as usize / 64, 1 << (row % 64));
            twice |= self.marks[word] & bit != 0;
            self.marks[word] |= bit;
        }
        rows.iter().for_each(|row| self.marks[*row as usize / 64] = 0);
        twice
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_repeated_row_is_noticed_and_forgotten(
            pushes in prop::collection::vec(prop::collection::vec(0_u32..300, 0..20), 1..10),
        ) {
            let mut seen = Seen::default();
            for rows in pushes {
                let mut sorted = rows.clone();
                sorted.sort_unstable();
                sorted.dedup();
                prop_assert_eq!(seen.any_twice(&rows), sorted.len() < rows.len());
            }
        }
    }
}
