//! How long the answer to a pull would be, so that one that nobody could be sent is refused before any of it is made.
//!
//! What is asked for is small where its answer is not: eight bytes of a key are up to 256 KiB of a row.

use super::{BadRequest, Wanted};
use crate::layout::{Layout, SliceId};

/// What is around the values of a table or of a slice at most: names, versions, lengths.
const AROUND: u64 = 64;
/// What an answer says of partitions, at most.
const OF_PARTITIONS: u64 = 64 << 10;

/// The length of an answer in bytes, if all of it has to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerSize(u64);

impl AnswerSize {
    /// With the rows of all of these tables, and with these slices.
    pub(crate) fn of<'a>(
        layout: &Layout,
        rows: impl Iterator<Item = Wanted<'a>>,
        slices: impl Iterator<Item = SliceId>,
    ) -> Self {
        let rows = rows.map(|of| Self::of_rows(of.keys.len(), layout.dim(of.table).unwrap_or(0)).0);
        let elements = slices.map(|slice| layout.elements(slice).map_or(0, |elements| elements.end - elements.start));
        let parts = rows.chain(elements.map(|elements| elements * 4 + AROUND));
        Self(parts.fold(OF_PARTITIONS, u64::saturating_add))
    }

    /// With rows of one table and nothing else.
    pub(crate) fn of_rows(keys: usize, dim: usize) -> Self {
        Self((keys as u64).saturating_mul(dim as u64 * 4).saturating_add(AROUND))
    }

    /// Refuses what is longer than a message may be.
    pub(crate) fn check(self, at_most: usize) -> Result<(), BadRequest> {
        match self.0 <= at_most as u64 {
            true => Ok(()),
            false => Err(BadRequest::TooMuch { bytes: self.0, at_most }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::Buckets;
    use crate::dial::MAX_MESSAGE;
    use crate::layout::TableId;
    use crate::placement::SLICE_ELEMENTS;
    use crate::spec::{Initializer, MAX_DIM, ModelSpec, Optimizer, TableSpec, VariableSpec};

    /// Whether a pull of so many of the widest rows, twice, and of so many whole slices is answered.
    fn pulled(keys: u64, slices: u32) -> Result<(), BadRequest> {
        let shape = vec![SLICE_ELEMENTS * u64::from(slices.max(1))];
        let spec = ModelSpec {
            variables: vec![VariableSpec { name: "w".into(), shape, init: Initializer::Zeros }],
            tables: vec![TableSpec { name: "e".into(), dim: MAX_DIM, init: Initializer::Zeros }],
            optimizer: Optimizer::sgd(0.1),
            seed: 0,
        };
        let (layout, table) = (Layout::new(spec).unwrap(), TableId(0));
        let keys: Vec<u64> = (0..keys).collect();
        let buckets = Buckets::of(layout.name_hash(table).unwrap(), &keys);
        let wanted = Wanted { table, keys: &keys, buckets: &buckets };
        let slices = (0..slices).map(|index| SliceId { variable: 0, index });
        AnswerSize::of(&layout, [wanted, wanted].into_iter(), slices).check(MAX_MESSAGE)
    }

    #[test]
    fn what_clients_ask_for_at_once_is_answered() {
        // No more than 16 MiB of values; the widest row and a whole slice have a quarter of one each.
        for (keys, slices) in [(0, 0), (1, 0), (0, 1), (32, 0), (0, 64), (16, 32)] {
            assert_eq!(pulled(keys, slices), Ok(()), "{keys} {slices}");
        }
    }

    #[test]
    fn all_tables_and_slices_together_fit_into_a_message_or_are_refused() {
        for (keys, slices) in [(127, 0), (0, 255), (64, 127), (63, 129)] {
            assert_eq!(pulled(keys, slices), Ok(()), "{keys} {slices}");
        }
        for (keys, slices) in [(128, 0), (0, 256), (64, 128), (10_000, 10_000)] {
            let refused = pulled(keys, slices).unwrap_err();
            assert!(matches!(refused, BadRequest::TooMuch { at_most: MAX_MESSAGE, .. }), "{keys} {slices}: {refused}");
        }
        assert!(AnswerSize::of_rows(usize::MAX, MAX_DIM as usize).check(usize::MAX >> 1).is_err());
    }
}
