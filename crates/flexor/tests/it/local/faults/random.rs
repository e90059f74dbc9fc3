//! Reproducible randomness: the test prints its seed, and the same seed repeats a failure.

use std::hash::{BuildHasher, RandomState};

/// A source of numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A new seed each time. Write its seed here to repeat a failure.
    pub fn new() -> Self {
        let seed = RandomState::new().hash_one(());
        println!("seed {seed}");
        Self(seed)
    }

    /// An independent source, derived from this one.
    pub fn fork(&self, number: u64) -> Self {
        Self(self.0 ^ Self(number).next())
    }

    /// Less than `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Seldom true.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
