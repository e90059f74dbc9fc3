//! The record of a row: key, step count (if the optimizer needs one), weights, slots.
//!
//! Records consist of 32-bit words, so keys, counts and values share one buffer. In files and on the wire each word is
//! little-endian.

use bytemuck::{cast_slice, cast_slice_mut};

const KEY_WORDS: usize = 2;

/// The layout of the records of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordShape {
    pub(crate) dim: usize,
    pub(crate) slots: usize,
    pub(crate) counts_steps: bool,
}

impl RecordShape {
    #[inline]
    pub(crate) fn words(self) -> usize {
        self.head() + self.dim * (1 + self.slots)
    }

    pub(crate) fn bytes(self) -> usize {
        self.words() * size_of::<u32>()
    }

    #[inline]
    fn head(self) -> usize {
        KEY_WORDS + usize::from(self.counts_steps)
    }

    #[inline]
    pub(crate) fn key(self, record: &[u32]) -> u64 {
        u64::from(record[0]) | u64::from(record[1]) << 32
    }

    /// The step count; 0 if rows do not count steps.
    #[cfg(test)]
    pub(crate) fn steps(self, record: &[u32]) -> u32 {
        if self.counts_steps { record[KEY_WORDS] } else { 0 }
    }

    #[inline]
    pub(crate) fn weights(self, record: &[u32]) -> &[f32] {
        cast_slice(&record[self.head()..self.head() + self.dim])
    }

    /// Weights and slots of a row.
    #[cfg(test)]
    pub(crate) fn values(self, record: &[u32]) -> &[f32] {
        cast_slice(&record[self.head()..])
    }

    /// Mutable step count and values of a row.
    #[inline]
    pub(crate) fn parts_mut(self, record: &mut [u32]) -> (Option<&mut u32>, &mut [f32]) {
        let (head, values) = record.split_at_mut(self.head());
        (head.get_mut(KEY_WORDS), cast_slice_mut(values))
    }
}

#[inline]
pub(super) fn words_of(key: u64) -> [u32; KEY_WORDS] {
    [key as u32, (key >> 32) as u32]
}
