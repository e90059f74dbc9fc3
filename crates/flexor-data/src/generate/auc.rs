//! The AUC of probabilities, counted in one pass.
//!
//! Probabilities are counted in 65,536 steps; those in one step count as equal. Memory does not grow, and the result is
//! right to about five digits.

const STEPS: usize = 1 << 16;

/// Label counts by probability.
#[derive(Debug)]
pub(super) struct Auc {
    /// Labels 0 and 1 in each step.
    counts: Vec<[u64; 2]>,
}

impl Auc {
    pub(super) fn new() -> Self {
        Self { counts: vec![[0; 2]; STEPS] }
    }

    pub(super) fn add(&mut self, probability: f64, label: bool) {
        let step = (probability * STEPS as f64) as usize;
        self.counts[step.min(STEPS - 1)][usize::from(label)] += 1;
    }

    /// Records with label 1.
    pub(super) fn positives(&self) -> u64 {
        self.counts.iter().map(|[_, ones]| ones).sum()
    }

    /// How often a record with label 1 has a higher probability than one with label 0; `None` with one label only.
    pub(super) fn value(&self) -> Option<f64> {
        let (mut zeros_below, mut won) = (0.0, 0.0);
        for [zeros, ones] in &self.counts {
            won += *ones as f64 * (zeros_below + *zeros as f64 / 2.0);
            zeros_below += *zeros as f64;
        }
        let pairs = zeros_below * self.positives() as f64;
        (pairs > 0.0).then(|| won / pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(records: &[(f64, bool)]) -> Option<f64> {
        let mut auc = Auc::new();
        records.iter().for_each(|(probability, label)| auc.add(*probability, *label));
        auc.value()
    }

    #[test]
    fn it_is_the_share_of_pairs_in_the_right_order() {
        assert_eq!(of(&[(0.1, false), (0.2, true), (0.3, false), (1.0, true)]), Some(0.75));
        assert_eq!(of(&[(0.5, false), (0.5, true)]), Some(0.5));
        assert_eq!(of(&[(0.9, false), (0.1, true)]), Some(0.0));
        assert_eq!(of(&[(0.9, true)]), None);
    }
}
