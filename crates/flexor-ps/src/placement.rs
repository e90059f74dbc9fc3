//! The mapping of rows and slices to partitions: a contract between servers, clients and files that never changes.
//!
//! A name is hashed with FNV-1a (64 bits, over its UTF-8 bytes). The XOR of name hash and key goes through the
//! finaliser of SplitMix64. The top eight bits of the result are the partition. Dense variables are cut into slices of
//! [`SLICE_ELEMENTS`] elements; the index of a slice is its key.
//!
//! This module does not decide which server hosts a partition: the job's master does.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Partitions of every model, for any number of servers.
pub const PARTITIONS: usize = 256;
/// Elements per slice of a dense variable; the last slice of a variable may have fewer.
pub const SLICE_ELEMENTS: u64 = 64 << 10;

/// The number of a partition, below [`PARTITIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionId(pub u8);

impl PartitionId {
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map(Self)
    }

    /// The number on the wire.
    pub fn number(self) -> u32 {
        self.0.into()
    }

    /// Decodes a number from the wire.
    pub fn of_number(number: u32) -> Option<Self> {
        u8::try_from(number).ok().map(Self)
    }

    /// The index into a list of all partitions.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The hash of a variable's or table's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NameHash(pub(crate) u64);

impl NameHash {
    pub fn of(name: &str) -> Self {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        Self(name.bytes().fold(0xCBF2_9CE4_8422_2325, step))
    }

    /// The hash of a row of the table, or of a slice of the variable.
    #[inline]
    pub fn hash_key(self, key: u64) -> KeyHash {
        KeyHash(mix(self.0 ^ key))
    }
}

/// The hash of a row or slice, spread evenly over 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub(crate) u64);

impl KeyHash {
    #[inline]
    pub fn partition(self) -> PartitionId {
        PartitionId((self.0 >> 56) as u8)
    }

    /// A hash for the index of one partition, where the top eight bits of all hashes are equal.
    #[inline]
    pub(crate) fn in_partition(self) -> u64 {
        self.0 ^ (self.0 << 8)
    }
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of the number.
#[inline]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_published_algorithms() {
        assert_eq!(NameHash::of(""), NameHash(0xCBF2_9CE4_8422_2325));
        assert_eq!(NameHash::of("a"), NameHash(0xAF63_DC4C_8601_EC8C));
        assert_eq!(NameHash::of("foobar"), NameHash(0x8594_4171_F739_67E8));
        // The first two numbers of SplitMix64 with the seed 0.
        assert_eq!(mix(0x9E37_79B9_7F4A_7C15), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(2)), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn the_partition_of_a_row_never_changes() {
        let users = NameHash::of("users");
        let kernel = NameHash::of("dense/kernel");
        let places = [0, 1, 2, 1000, u64::MAX].map(|key| users.hash_key(key).partition().0);
        let slices = [0, 1, 2].map(|slice| kernel.hash_key(slice).partition().0);
        assert_eq!((places, slices), ([251, 29, 86, 84, 129], [90, 168, 175]));
    }

    #[test]
    fn consecutive_keys_are_spread_evenly() {
        let table = NameHash::of("clicks/embedding");
        let mut rows = [0_u32; PARTITIONS];
        (0..256_000).for_each(|key| rows[table.hash_key(key).partition().index()] += 1);
        let (least, most) = (rows.iter().min().unwrap(), rows.iter().max().unwrap());
        assert!(*least > 850 && *most < 1150, "{least} to {most} rows of 1000");
    }
}
