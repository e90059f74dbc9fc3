//! Little-endian encoding of numbers, for files and for partitions on the wire.

use bytemuck::{NoUninit, cast_slice};
use bytes::Bytes;

/// Reads numbers from the front of a byte slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*taken))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*taken))
    }

    /// Reads `count` numbers of 32 bits.
    pub(crate) fn words(&mut self, count: usize) -> Option<Vec<u32>> {
        let bytes = self.bytes(count.checked_mul(4)?)?;
        Some(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// Reads `count` numbers of 64 bits.
    pub(crate) fn longs(&mut self, count: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(count.checked_mul(8)?)?;
        Some(bytes.as_chunks().0.iter().map(|long| u64::from_le_bytes(*long)).collect())
    }

    /// Reads `count` floats.
    pub(crate) fn floats(&mut self, count: usize) -> Option<Vec<f32>> {
        let bytes = self.bytes(count.checked_mul(4)?)?;
        Some(bytes.as_chunks().0.iter().map(|float| f32::from_le_bytes(*float)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) fn put_u32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend(number.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_le_bytes());
}

pub(crate) fn put_words(bytes: &mut Vec<u8>, words: &[u32]) {
    put_all(bytes, words, u32::to_le_bytes);
}

pub(crate) fn put_longs(bytes: &mut Vec<u8>, longs: &[u64]) {
    put_all(bytes, longs, u64::to_le_bytes);
}

pub(crate) fn put_floats(bytes: &mut Vec<u8>, floats: &[f32]) {
    put_all(bytes, floats, f32::to_le_bytes);
}

/// Copies all numbers at once: number by number would be the slowest part of a checkpoint.
fn put_all<T: NoUninit, const N: usize>(bytes: &mut Vec<u8>, numbers: &[T], to_bytes: fn(T) -> [u8; N]) {
    match cfg!(target_endian = "little") {
        true => bytes.extend_from_slice(cast_slice(numbers)),
        false => bytes.extend(numbers.iter().flat_map(|number| to_bytes(*number))),
    }
}

/// Turns floats into bytes for a message without copying them.
pub(crate) fn floats_as_bytes(mut values: Vec<f32>) -> Bytes {
    struct Floats(Vec<f32>);

    impl AsRef<[u8]> for Floats {
        fn as_ref(&self) -> &[u8] {
            cast_slice(&self.0)
        }
    }

    if cfg!(target_endian = "big") {
        values.iter_mut().for_each(|value| *value = f32::from_bits(value.to_bits().swap_bytes()));
    }
    Bytes::from_owner(Floats(values))
}
