//! A seeded random number generator (SplitMix64). One seed gives one cluster.

#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u32, high: u32) -> u32 {
        let span = u64::from(high - low) + 1;
        low + u32::try_from(self.next() % span).unwrap_or_default()
    }

    /// Whether something happens that happens once in so many times.
    pub(super) fn once_in(&mut self, times: u32) -> bool {
        self.between(1, times) == 1
    }

    /// One of these, which are not empty.
    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.position(all.len())]
    }

    /// A position in a list that is not empty.
    pub(super) fn position(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % length.max(1) as u64).unwrap_or_default()
    }
}
