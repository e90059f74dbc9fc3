//! Random numbers that a seed fixes for ever: SplitMix64 in integers, so that every machine draws the same.

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to `end`, exclusive; 0 where `end` is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        let drawn = u128::from(self.next()) * u128::from(end);
        u64::try_from(drawn >> 64).unwrap_or(0)
    }

    /// A number from `least` to `most`, both included.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// One of `all`; none where it is empty.
    pub(super) fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let index = self.below(all.len() as u64);
        all.get(usize::try_from(index).unwrap_or(0))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_are_within_their_bounds() {
        let mut random = Random::new(0);
        let drawn: Vec<u64> = (0..1000).map(|_| random.between(3, 5)).collect();
        assert!((3..=5).all(|number| drawn.contains(&number)) && drawn.iter().all(|number| (3..=5).contains(number)));
        assert_eq!((random.below(0), random.one_of::<u8>(&[])), (0, None));
    }
}
