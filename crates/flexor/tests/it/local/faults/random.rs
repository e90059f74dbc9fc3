//! Reproducible randomness: the test prints the line that repeats a failure.

/// A source of numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Another seed each time, or that of `FLEXOR_SEED`.
    pub fn new() -> Self {
        Self::from(flexor_seeds::fresh())
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

impl From<u64> for Random {
    fn from(seed: u64) -> Self {
        Self(seed)
    }
}
