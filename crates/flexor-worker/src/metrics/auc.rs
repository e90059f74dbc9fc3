//! The area under the ROC curve: how often a yes scores above a no. Ties count half.
//!
//! Scores are counted by value, so the result is exact up to [`POOLS`] distinct scores. Beyond that, scores lose their
//! lowest bits until they fit. Neighbours then count as ties, and [`Auc::uncertainty`] bounds the error. For scores
//! that spread over a few units of logits the error is below 1e-4 for any number of records.

/// The most distinct scores.
const POOLS: usize = 1 << 17;

/// Scores are buffered up to this number before they are counted.
const GATHERED: usize = 1 << 14;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Auc {
    /// Sorted, each score once.
    pools: Vec<Pool>,
    /// Dropped low bits of the scores.
    dropped: u32,
    /// Buffered scores.
    gathered: Vec<Pool>,
    /// NaN scores.
    broken: u64,
}

/// Records of one score.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pool {
    /// Sorts like the score.
    rank: u32,
    no: u64,
    yes: u64,
}

impl Auc {
    /// Adds the score of a record.
    pub fn add(&mut self, score: f32, label: bool) {
        if score.is_nan() {
            self.broken += 1;
            return;
        }
        let rank = rank(score) >> self.dropped;
        self.gathered.push(Pool { rank, no: u64::from(!label), yes: u64::from(label) });
        if self.gathered.len() >= GATHERED.max(self.pools.len() / 2) {
            self.count();
        }
    }

    /// The area: 1 when every yes is above every no, a half for guessing. `None` without both labels, or after a NaN
    /// score.
    pub fn value(&self) -> Option<f64> {
        let counted = self.counted();
        let (no, yes) = counted.totals();
        if self.broken > 0 || no == 0 || yes == 0 {
            return None;
        }
        let (mut below, mut wins) = (0_u64, 0.0);
        for pool in &counted.pools {
            wins += pool.yes as f64 * (below as f64 + 0.5 * pool.no as f64);
            below += pool.no;
        }
        Some(wins / (no as f64 * yes as f64))
    }

    /// The largest possible error of the value; 0 while scores have lost no bits.
    pub fn uncertainty(&self) -> f64 {
        let counted = self.counted();
        let (no, yes) = counted.totals();
        if counted.dropped == 0 || no == 0 || yes == 0 {
            return 0.0;
        }
        let ties: f64 = counted.pools.iter().map(|pool| pool.no as f64 * pool.yes as f64).sum();
        0.5 * ties / (no as f64 * yes as f64)
    }

    fn counted(&self) -> Self {
        let mut counted = self.clone();
        counted.count();
        counted
    }

    fn totals(&self) -> (u64, u64) {
        let sum = |count: fn(&Pool) -> u64| self.pools.iter().map(count).sum();
        (sum(|pool| pool.no), sum(|pool| pool.yes))
    }

    /// Merges the buffered scores into the pools.
    fn count(&mut self) {
        self.pools.append(&mut self.gathered);
        // The pools are a sorted run, which this sort exploits.
        self.pools.sort_by_key(|pool| pool.rank);
        self.join_equal();
        while self.pools.len() > POOLS {
            self.drop_bits(1);
        }
    }

    fn drop_bits(&mut self, bits: u32) {
        if bits > 0 {
            self.dropped += bits;
            self.pools.iter_mut().chain(&mut self.gathered).for_each(|pool| pool.rank >>= bits);
            self.join_equal();
        }
    }

    fn join_equal(&mut self) {
        self.pools.dedup_by(|next, first| {
            let same = next.rank == first.rank;
            if same {
                first.no += next.no;
                first.yes += next.yes;
            }
            same
        });
    }
}

/// An integer that sorts like the score; both zeros give the same.
fn rank(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | (1 << 31) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(scored: &[(f32, bool)]) -> Auc {
        let mut auc = Auc::default();
        scored.iter().for_each(|(score, label)| auc.add(*score, *label));
        auc
    }

    /// The definition: every yes against every no.
    fn reference(scored: &[(f32, bool)]) -> Option<f64> {
        let scores = |wanted: bool| scored.iter().filter(move |(_, label)| *label == wanted).map(|(score, _)| *score);
        let pairs = scores(true).count() * scores(false).count();
        let wins = scores(true).flat_map(|yes| {
            scores(false).map(move |no| match yes.total_cmp(&no) {
                _ if yes == no => 0.5,
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Less | std::cmp::Ordering::Equal => 0.0,
            })
        });
        (pairs > 0).then(|| wins.sum::<f64>() / pairs as f64)
    }

    #[test]
    fn one_class_alone_has_no_area() {
        assert_eq!(Auc::default().value(), None);
        assert_eq!(of(&[(1.0, true), (2.0, true)]).value(), None);
        assert_eq!(of(&[(1.0, false)]).value(), None);
    }

    #[test]
    fn ties_count_half_and_order_counts_whole() {
        assert_eq!(of(&[(0.0, true), (-0.0, false)]).value(), Some(0.5));
        assert_eq!(of(&[(-3.0, false), (-1.0, true), (0.5, true)]).value(), Some(1.0));
        assert_eq!(of(&[(3.0, false), (-1.0, true)]).value(), Some(0.0));
        assert_eq!(of(&[(f32::INFINITY, true), (f32::NEG_INFINITY, false)]).value(), Some(1.0));
    }

    #[test]
    fn a_nan_score_leaves_no_value() {
        assert_eq!(of(&[(1.0, true), (0.0, false), (f32::NAN, true)]).value(), None);
    }

    #[test]
    fn a_million_different_scores_are_off_by_less_than_a_ten_thousandth() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let scored: Vec<(f32, bool)> = std::iter::repeat_with(|| {
            let score = 6.0 * (next() + next() + next() - 1.5);
            (score as f32, next() < 1.0 / (1.0 + (-score).exp()))
        })
        .take(1_000_000)
        .collect();
        let mut sorted = scored.clone();
        sorted.sort_by(|left, right| left.0.total_cmp(&right.0));
        let (mut below, mut wins) = (0_u64, 0_u64);
        for (_, label) in &sorted {
            if *label { wins += below } else { below += 1 }
        }
        let exact = wins as f64 / (below as f64 * (sorted.len() as f64 - below as f64));
        let whole = of(&scored);
        assert!(whole.pools.len() <= POOLS);
        assert!(whole.uncertainty() > 0.0 && whole.uncertainty() < 1e-4, "{}", whole.uncertainty());
        assert!((whole.value().unwrap() - exact).abs() <= whole.uncertainty() + 1e-6);
    }

    /// Any score, or one of few, to get ties.
    fn score() -> impl Strategy<Value = f32> {
        prop_oneof![-3.0..3.0_f32, (-2..3_i32).prop_map(|score| score as f32)]
    }

    proptest! {
        #[test]
        fn the_area_is_that_of_the_definition(
            scored in prop::collection::vec((score(), any::<bool>()), 0..60),
        ) {
            let wanted = reference(&scored);
            prop_assert_eq!(of(&scored).value().is_some(), wanted.is_some());
            if let (Some(value), Some(wanted)) = (of(&scored).value(), wanted) {
                prop_assert!((value - wanted).abs() < 1e-9, "{} is not {}", value, wanted);
            }
        }
    }
}
