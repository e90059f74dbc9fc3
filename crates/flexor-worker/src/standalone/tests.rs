//! Every model learns generated data whose best result is known.

mod generated;

use super::*;
use crate::Inputs;
use crate::features::key;
use crate::kernels::probability;
use crate::metrics::Metrics;
use crate::models::{Architecture, Task};

/// Pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 24) as f32
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.unit() * end as f32) as usize).min(end - 1)
    }
}

/// The effect of a field's value in the generated truth, between -1 and 1.
fn effect(field: usize, value: usize, of: u32) -> f32 {
    let bits = key(of, format!("{field} {value}").as_bytes());
    (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
}

const CLICKS: Inputs = Inputs { fields: 4, numbers: 2, classes: 2 };
const VALUES: usize = 12;

/// Batches, and the scores of the truth itself.
struct Truth {
    batches: Vec<Batch>,
    best: Metrics,
}

impl Truth {
    /// Clicks with a linear logit, plus pairs of fields where `pairs` is above 0.
    fn clicks(records: usize, pairs: f32, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let mut truth = Self { batches: Vec::new(), best: Metrics::new(Task::YesNo) };
        for _ in 0..records / 256 {
            let mut batch = Batch::new(CLICKS);
            let mut scores = Vec::new();
            for _ in 0..256 {
                let values: Vec<usize> = (0..CLICKS.fields).map(|_| numbers.below(VALUES)).collect();
                let x = [numbers.unit(), numbers.unit()];
                let linear: f32 = values.iter().enumerate().map(|(field, value)| effect(field, *value, 0)).sum();
                let together = |left: usize, right: usize| -> f32 {
                    (1..3).map(|of| effect(left, values[left], of) * effect(right, values[right], of)).sum()
                };
                let score = linear + x[0] - x[1] + pairs * (together(0, 1) + together(2, 3) + together(0, 3));
                let keys: Vec<u64> =
                    values.iter().enumerate().map(|(field, value)| (field * VALUES + value) as u64).collect();
                batch.push(u32::from(numbers.unit() < probability(score)), &x, &keys);
                scores.push(score);
            }
            truth.best.add(&scores, batch.labels());
            truth.batches.push(batch);
        }
        truth
    }
}

/// Trains a model on some batches, and scores others.
fn learn(described: &str, inputs: Inputs, epochs: usize, train: &[Batch], test: &[Batch]) -> Metrics {
    let architecture: Architecture = described.parse().unwrap();
    let model = architecture.build(inputs).unwrap();
    let mut metrics = Metrics::new(model.task());
    let mut alone = StandaloneTrainer::new(model, architecture.default_optimizer(), 1).unwrap();
    for _ in 0..epochs {
        train.iter().for_each(|batch| {
            alone.train(batch).unwrap();
        });
    }
    test.iter().for_each(|batch| metrics.add(alone.scores(batch).unwrap(), batch.labels()));
    metrics
}

fn auc_is_near_the_best(described: &str, pairs: f32, epochs: usize) {
    let (train, test) = (Truth::clicks(100_000, pairs, 1), Truth::clicks(20_000, pairs, 2));
    let learned = learn(described, CLICKS, epochs, &train.batches, &test.batches);
    let (auc, best) = (learned.auc().unwrap(), test.best.auc().unwrap());
    assert!(auc > best - 0.01, "{described} has {auc:.4}, the truth {best:.4}");
}

#[test]
fn logistic_regression_learns_a_linear_truth() {
    auc_is_near_the_best("logistic", 0.0, 1);
}

#[test]
fn deepfm_learns_pairs_of_fields() {
    auc_is_near_the_best("deepfm:dim=4,hidden=32x16", 2.0, 3);
}

#[test]
fn wide_and_deep_learns_pairs_of_fields() {
    auc_is_near_the_best("wide-deep:dim=4,hidden=32x16,crosses=0x1+2x3+0x3", 2.0, 3);
}

#[test]
fn logistic_regression_cannot_learn_pairs() {
    let (train, test) = (Truth::clicks(50_000, 2.0, 1), Truth::clicks(20_000, 2.0, 2));
    let learned = learn("logistic", CLICKS, 1, &train.batches, &test.batches);
    assert!(learned.auc().unwrap() < test.best.auc().unwrap() - 0.03);
}

#[test]
fn an_mlp_tells_shapes_apart() {
    let inputs = Inputs { fields: 0, numbers: 64, classes: 10 };
    let mut numbers = Numbers(3);
    // Each digit is a pattern of bright pixels, shifted right by up to one pixel, with noise.
    let mut batches = (0..80).map(|_| {
        let mut batch = Batch::new(inputs);
        for _ in 0..64 {
            let (digit, moved) = (numbers.below(10), numbers.below(2));
            let pixel = |at: usize| if effect(digit, at, 9) > 0.4 { 1.0 } else { 0.0 };
            let image: Vec<f32> =
                (0..64).map(|at| pixel((at + 64 - moved) % 64) + 0.6 * (numbers.unit() - 0.5)).collect();
            batch.push(digit as u32, &image, &[]);
        }
        batch
    });
    let train: Vec<Batch> = batches.by_ref().take(64).collect();
    let test: Vec<Batch> = batches.collect();
    let learned = learn("mlp:hidden=32", inputs, 8, &train, &test);
    assert!(learned.accuracy().unwrap() > 0.95, "{:?}", learned.accuracy());
}

#[test]
fn scoring_stores_no_rows() {
    let truth = Truth::clicks(256, 0.0, 1);
    let model = "deepfm".parse::<Architecture>().unwrap().build(CLICKS).unwrap();
    let mut alone = StandaloneTrainer::new(model, Optimizer::adam(0.01), 1).unwrap();
    let before = alone.scores(&truth.batches[0]).unwrap().to_vec();
    assert_eq!(alone.rows(), 0);
    assert_eq!(alone.train(&truth.batches[0]).unwrap().scores, before);
    assert!(alone.rows() > 0);
}
