//! Stateless random numbers: hashes of their purpose.
//!
//! Only additions and multiplications are used, which give the same result on every machine.

/// A seed and a purpose, for which numbers can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Noise(u64);

impl Noise {
    /// The root of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// Refines the purpose.
    pub(super) fn of(self, what: u64) -> Self {
        Self(mix(self.0 ^ what.wrapping_mul(0xd6e8_feb8_6659_fd93).wrapping_add(0x2545_f491_4f6c_dd1d)))
    }

    /// A number from 0 up to 1.
    pub(super) fn unit(self) -> f64 {
        // As many bits as a float's mantissa.
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number between two others.
    pub(super) fn between(self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// An integer below `end`.
    pub(super) fn below(self, end: u64) -> u64 {
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }

    /// A nearly normal number with mean 0 and variance 1: the sum of four uniform ones.
    pub(super) fn bell(self) -> f64 {
        let sum: u64 = (0..4).map(|part| (self.0 >> (16 * part)) & 0xffff).sum();
        const MEAN: f64 = 2.0 * 65_535.0;
        // The square root of 4 × (65,536² − 1) / 12.
        const DEVIATION: f64 = 37_837.227_35;
        (sum as f64 - MEAN) / DEVIATION
    }

    /// One of several choices, by weight.
    pub(super) fn choose<T>(self, choices: &[T], weight: impl Fn(&T) -> f64) -> &T {
        let total: f64 = choices.iter().map(&weight).sum();
        let mut left = self.unit() * total;
        let chosen = choices.iter().find(|choice| {
            left -= weight(choice);
            left < 0.0
        });
        chosen.or(choices.last()).expect("there is something to choose from")
    }
}

/// The probability for a logit.
pub(super) fn sigmoid(evidence: f64) -> f64 {
    1.0 / (1.0 + (-evidence).exp())
}

/// Makes every bit of the result depend on every bit of the input (the finaliser of SplitMix64).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bells_have_the_mean_and_the_variance_that_they_claim() {
        let draws: Vec<f64> = (0..100_000).map(|number| Noise::new(7).of(number).bell()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }

    #[test]
    fn choices_come_as_often_as_their_weights_say() {
        let choices = [("rare", 1.0), ("never", 0.0), ("often", 3.0)];
        let draws = (0..40_000).map(|number| Noise::new(1).of(number).choose(&choices, |choice| choice.1).0);
        let mut counts = std::collections::BTreeMap::new();
        draws.for_each(|name| *counts.entry(name).or_insert(0) += 1);
        assert!((9_500..10_500).contains(&counts["rare"]) && !counts.contains_key("never"), "{counts:?}");
    }

    #[test]
    fn numbers_are_the_same_on_every_machine() {
        let noise = Noise::new(1).of(2).of(3);
        assert_eq!((noise.below(1_000_000), noise.below(10)), (noise.below(1_000_000), noise.below(10)));
        assert!((0..1000).all(|number| noise.of(number).below(7) < 7 && noise.of(number).unit() < 1.0));
    }
}
