//! The size of the answer to a pull, computed before any row is created.
//!
//! A small request can have a huge answer: eight bytes of a key select up to 256 KiB of a row. A server rejects a pull
//! whose answer exceeds the message limit.

use super::{BadRequest, RowKeys};
use crate::layout::{Layout, SliceId};

/// An upper bound of names, versions and lengths beside the values of a table or slice.
const ENTRY_OVERHEAD: u64 = 64;
/// An upper bound of what an answer says about partitions.
const PARTITIONS_OVERHEAD: u64 = 64 << 10;

/// The size of an answer in bytes if nothing can be omitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerSize(u64);

impl AnswerSize {
    /// The size of an answer with these rows and slices.
    pub(crate) fn of<'a>(
        layout: &Layout,
        rows: impl Iterator<Item = RowKeys<'a>>,
        slices: impl Iterator<Item = SliceId>,
    ) -> Self {
        let rows = rows.map(|of| Self::of_rows(of.keys.len(), layout.dim(of.table).unwrap_or(0)).0);
        let elements = slices.map(|slice| layout.elements(slice).map_or(0, |elements| elements.end - elements.start));
        let parts = rows.chain(elements.map(|elements| elements * 4 + ENTRY_OVERHEAD));
        Self(parts.fold(PARTITIONS_OVERHEAD, u64::saturating_add))
    }

    /// The size of an answer with rows of one table only.
    pub(crate) fn of_rows(keys: usize, dim: usize) -> Self {
        Self((keys as u64).saturating_mul(dim as u64 * 4).saturating_add(ENTRY_OVERHEAD))
    }

    /// Rejects an answer that exceeds the message limit.
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

    /// Checks a pull of `keys` rows of the widest table, requested twice, and of `slices` full slices.
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
        let wanted = RowKeys { table, keys: &keys, buckets: &buckets };
        let slices = (0..slices).map(|index| SliceId { variable: 0, index });
        AnswerSize::of(&layout, [wanted, wanted].into_iter(), slices).check(MAX_MESSAGE)
    }

    #[test]
    fn pulls_of_the_size_that_clients_send_are_answered() {
        // At most 16 MiB of values. The widest row and a full slice have a quarter MiB each.
        for (keys, slices) in [(0, 0), (1, 0), (0, 1), (32, 0), (0, 64), (16, 32)] {
            assert_eq!(pulled(keys, slices), Ok(()), "{keys} {slices}");
        }
    }

    #[test]
    fn the_sum_over_tables_and_slices_fits_into_a_message_or_is_rejected() {
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
