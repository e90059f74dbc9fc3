//! The words of a row: its key, its step count where the optimizer asks for one, its weights, its slots.
//!
//! Words of 32 bits, so that keys, counts and values can lie side by side. Written to a file or a socket each word is
//! little-endian.

use bytemuck::{cast_slice, cast_slice_mut};

/// How many words the key takes.
const KEY_WORDS: usize = 2;

/// What the rows of one table look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordShape {
    /// How many weights.
    pub(crate) dim: usize,
    /// How many slots beside each weight.
    pub(crate) slots: usize,
    /// Whether rows count their steps.
    pub(crate) counts_steps: bool,
}

impl RecordShape {
    /// How many words a row has.
    #[inline]
    pub(crate) fn words(self) -> usize {
        self.head() + self.dim * (1 + self.slots)
    }

    /// How many bytes a row has.
    pub(crate) fn bytes(self) -> usize {
        self.words() * size_of::<u32>()
    }

    #[inline]
    fn head(self) -> usize {
        KEY_WORDS + usize::from(self.counts_steps)
    }

    /// The key of a row.
    #[inline]
    pub(crate) fn key(self, record: &[u32]) -> u64 {
        u64::from(record[0]) | u64::from(record[1]) << 32
    }

    /// How many steps the row has taken; 0 where nobody counts.
    #[cfg(test)]
    pub(crate) fn steps(self, record: &[u32]) -> u32 {
        if self.counts_steps { record[KEY_WORDS] } else { 0 }
    }

    /// The weights of a row.
    #[inline]
    pub(crate) fn weights(self, record: &[u32]) -> &[f32] {
        cast_slice(&record[self.head()..self.head() + self.dim])
    }

    /// Weights and slots of a row.
    #[cfg(test)]
    pub(crate) fn values(self, record: &[u32]) -> &[f32] {
        cast_slice(&record[self.head()..])
    }

    /// Step count and values of a row, to be changed.
    #[inline]
    pub(crate) fn parts_mut(self, record: &mut [u32]) -> (Option<&mut u32>, &mut [f32]) {
        let (head, values) = record.split_at_mut(self.head());
        (head.get_mut(KEY_WORDS), cast_slice_mut(values))
    }
}

/// The words of a key.
#[inline]
pub(super) fn words_of(key: u64) -> [u32; KEY_WORDS] {
    [key as u32, (key >> 32) as u32]
}
