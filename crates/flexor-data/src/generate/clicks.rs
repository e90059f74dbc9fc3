//! Generates a click log of advertisements.
//!
//! Columns are `label`, a few numbers `n0…` and some categories `c0…`, whose values are integers from 0. Low values are
//! far more frequent than high ones, as in real logs. The truth is what factorization machines and their successors
//! model. Each value of a category has a weight. Each pair of values of the smallest categories has one, too, through
//! short hidden vectors. Rare values matter less, so a model comes close to the truth with some hundred thousand
//! records.

use super::noise::{Noise, sigmoid};
use super::table::{Column, Table, Value};

/// The number of values of each category.
pub const VOCABULARIES: [u32; 10] = [100, 100, 100, 100, 200, 200, 500, 500, 1_000, 10_000];

/// The weight of each number, per standard deviation.
const SLOPES: [f64; 4] = [0.8, -0.56, 0.4, 0.24];
/// The logit without other evidence.
const BIAS: f64 = -1.3;
/// The weight of a frequent value.
const WEIGHT: f64 = 0.5;
/// The size of the hidden vectors, in each dimension.
const VECTOR: f64 = 0.4;
/// How many categories have pair weights: those with the fewest values.
const PAIRED: u64 = 4;
const DIMENSIONS: usize = 4;
/// From about this value on, weights decrease.
const FREQUENT: f64 = 10.0;

/// The purposes of random draws.
const NUMBER: u64 = 1;
const CATEGORY: u64 = 2;
const LABEL: u64 = 3;
const WEIGHTS: u64 = 4;
const VECTORS: u64 = 5;

#[derive(Debug)]
pub struct Clicks {
    seed: u64,
    noise: Noise,
    columns: Vec<Column>,
}

impl Clicks {
    /// The log of a seed; it is endless.
    pub fn new(seed: u64) -> Self {
        let numbers = (0..SLOPES.len()).map(|at| format!("n{at}"));
        let categories = (0..VOCABULARIES.len()).map(|at| format!("c{at}"));
        let columns = std::iter::once("label".to_owned()).chain(numbers).chain(categories).collect();
        Self { seed, noise: Noise::new(seed), columns }
    }

    /// The weight of a category's value, and its hidden vector.
    fn meaning(&self, field: u64, value: u32) -> (f64, [f64; DIMENSIONS]) {
        let importance = 1.0 / (1.0 + f64::from(value) / FREQUENT);
        let weights = self.noise.of(WEIGHTS).of(field).of(u64::from(value));
        let vectors = self.noise.of(VECTORS).of(field).of(u64::from(value));
        let length = if field < PAIRED { VECTOR * importance * importance } else { 0.0 };
        let vector = std::array::from_fn(|at| length * vectors.of(at as u64).bell());
        (WEIGHT * importance * weights.bell(), vector)
    }
}

impl Table for Clicks {
    fn name(&self) -> &'static str {
        "clicks"
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn row(&self, number: u64, row: &mut Vec<Value>) -> (bool, f64) {
        let label_at = row.len();
        row.push(Value::Integer(0));
        let mut evidence = BIAS;
        for (field, slope) in (0_u64..).zip(SLOPES) {
            // Rounded first, so that the truth matches the written value.
            let thousandths = (1000.0 * self.noise.of(NUMBER).of(field).of(number).bell()).round() as i32;
            evidence += slope * f64::from(thousandths) / 1000.0;
            row.push(Value::Thousandths(thousandths));
        }
        // All pairs at once: half of the square of the sum, less the squares.
        let (mut sum, mut squares) = ([0.0; DIMENSIONS], [0.0; DIMENSIONS]);
        for (field, vocabulary) in (0_u64..).zip(VOCABULARIES) {
            let value = skewed(self.noise.of(CATEGORY).of(field).of(number), vocabulary);
            let (weight, vector) = self.meaning(field, value);
            evidence += weight;
            for (at, part) in vector.into_iter().enumerate() {
                sum[at] += part;
                squares[at] += part * part;
            }
            row.push(Value::Integer(i64::from(value)));
        }
        evidence += sum.iter().zip(squares).map(|(sum, squares)| (sum * sum - squares) / 2.0).sum::<f64>();
        let probability = sigmoid(evidence);
        let label = self.noise.of(LABEL).of(number).unit() < probability;
        row[label_at] = Value::Integer(i64::from(label));
        (label, probability)
    }
}

/// Draws a category's value. Of a thousand values the first comes in 42 % of all records, the first ten in 56 %.
fn skewed(noise: Noise, vocabulary: u32) -> u32 {
    let unit = noise.unit();
    let square = unit * unit;
    let fourth = square * square;
    (fourth * fourth * f64::from(vocabulary)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_same_whatever_was_made_before() {
        let of = |seed: u64, number: u64| {
            let mut row = Vec::new();
            Clicks::new(seed).row(number, &mut row);
            row
        };
        assert_eq!(of(1, 77), of(1, 77));
        assert_ne!(of(1, 77), of(2, 77));
        assert_eq!(of(1, 77).len(), Clicks::new(1).columns().len());
    }

    #[test]
    fn labels_and_values_have_their_documented_frequencies() {
        let clicks = Clicks::new(5);
        let (mut clicked, mut expected, mut first) = (0.0, 0.0, 0.0);
        let mut row = Vec::new();
        let records = 20_000;
        for number in 0..records {
            row.clear();
            let (label, probability) = clicks.row(number, &mut row);
            clicked += f64::from(u8::from(label));
            expected += probability;
            // c8 has a thousand values.
            first += f64::from(u8::from(row[13] == Value::Integer(0)));
        }
        assert!((clicked - expected).abs() < 3.0 * (expected / 2.0).sqrt() * 2.0, "{clicked} {expected}");
        assert!((0.40..0.44).contains(&(first / records as f64)), "{first}");
    }
}
