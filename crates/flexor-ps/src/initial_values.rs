//! The initial value of every element, as a pure function of seed, name, key and element.
//!
//! A model therefore does not depend on the number of servers, on the order of first accesses, or on whether a row was
//! stored or recomputed. The code only uses additions, multiplications, divisions and square roots, which give the same
//! bits on every machine. The tests contain known answers, because checkpoints omit rows that were never trained.
//!
//! The stream of a row is `mix(hash ^ mix(seed + G))`. Here `hash` is [`NameHash::hash_key`] of its key (0 for a dense
//! variable) and G the golden-ratio constant of SplitMix64. Element `i` draws `mix(stream + (i + 1)·G)`. An element
//! that needs more numbers takes `mix(draw + (j + 1)·G)`.

mod normal;

use crate::placement::{KeyHash, NameHash, mix};
use crate::spec::Initializer;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// The standard deviation of a standard normal distribution truncated at ±2.
const TRUNCATED_STD: f64 = 0.879_625_661_034_239_8;

/// The initial values of one variable or table.
#[derive(Debug, Clone)]
pub(crate) struct InitialValues {
    distribution: Distribution,
    name: NameHash,
    /// The seed of the model, mixed once.
    seed: u64,
}

/// An initializer with its parameters computed from the shape.
#[derive(Debug, Clone, Copy)]
enum Distribution {
    Constant(f32),
    Uniform { low: f32, width: f32 },
    Normal { mean: f32, std: f32 },
    Truncated { mean: f32, std: f32 },
}

impl InitialValues {
    /// For a table with rows of `dim` values. A row counts as a 1 × `dim` matrix: fan in 1, fan out `dim`.
    pub(crate) fn of_table(name: NameHash, dim: u32, rule: Initializer, seed: u64) -> Self {
        Self { distribution: Distribution::new(rule, 1.0, f64::from(dim)), name, seed: mix(seed.wrapping_add(GOLDEN)) }
    }

    /// For a dense variable. Fan in and fan out are those of Keras: the last two sides, each times all sides before
    /// them.
    pub(crate) fn of_variable(name: NameHash, shape: &[u64], rule: Initializer, seed: u64) -> Self {
        let (inputs, outputs) = match *shape {
            [] => (1.0, 1.0),
            [only] => (only as f64, only as f64),
            [ref field @ .., inputs, outputs] => {
                let field = field.iter().map(|side| *side as f64).product::<f64>();
                (field * inputs as f64, field * outputs as f64)
            }
        };
        Self { distribution: Distribution::new(rule, inputs, outputs), name, seed: mix(seed.wrapping_add(GOLDEN)) }
    }

    pub(crate) fn row(&self, hash: KeyHash, values: &mut [f32]) {
        self.fill(hash, 0, values);
    }

    /// Fills `values` with the elements of a dense variable from `first` on.
    pub(crate) fn elements(&self, first: u64, values: &mut [f32]) {
        self.fill(self.name.hash_key(0), first, values);
    }

    fn fill(&self, hash: KeyHash, first: u64, values: &mut [f32]) {
        let stream = mix(hash.0 ^ self.seed);
        let draws = (first..).map(|element| mix(stream.wrapping_add(element.wrapping_add(1).wrapping_mul(GOLDEN))));
        let values = values.iter_mut().zip(draws);
        match self.distribution {
            Distribution::Constant(constant) => values.for_each(|(value, _)| *value = constant),
            Distribution::Uniform { low, width } => values.for_each(|(value, draw)| *value = low + width * unit(draw)),
            Distribution::Normal { mean, std } => {
                values.for_each(|(value, draw)| *value = mean + std * normal::standard(draw) as f32);
            }
            Distribution::Truncated { mean, std } => {
                values.for_each(|(value, draw)| *value = mean + std * normal::within_two(draw) as f32);
            }
        }
    }
}

impl Distribution {
    fn new(rule: Initializer, inputs: f64, outputs: f64) -> Self {
        let within = |limit: f64| Self::Uniform { low: -limit as f32, width: (2.0 * limit) as f32 };
        let around = |std: f64| Self::Truncated { mean: 0.0, std: (std / TRUNCATED_STD) as f32 };
        match rule {
            Initializer::Zeros => Self::Constant(0.0),
            Initializer::Ones => Self::Constant(1.0),
            Initializer::Constant(value) => Self::Constant(value),
            Initializer::Uniform { low, high } => Self::Uniform { low, width: high - low },
            Initializer::Normal { mean, std } => Self::Normal { mean, std },
            Initializer::TruncatedNormal { mean, std } => Self::Truncated { mean, std },
            Initializer::GlorotUniform => within((6.0 / (inputs + outputs)).sqrt()),
            Initializer::GlorotNormal => around((2.0 / (inputs + outputs)).sqrt()),
            Initializer::HeUniform => within((6.0 / inputs).sqrt()),
            Initializer::HeNormal => around((2.0 / inputs).sqrt()),
            Initializer::LecunUniform => within((3.0 / inputs).sqrt()),
            Initializer::LecunNormal => around((1.0 / inputs).sqrt()),
        }
    }
}

/// The top 24 bits as a number in [0, 1).
#[inline]
fn unit(draw: u64) -> f32 {
    (draw >> 40) as f32 * (1.0 / (1_u32 << 24) as f32)
}

/// Extra number `j` for an element that needs more than one draw.
#[inline]
fn extra_draw(draw: u64, j: u64) -> u64 {
    mix(draw.wrapping_add((j + 1).wrapping_mul(GOLDEN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rule: Initializer) -> InitialValues {
        InitialValues::of_table(NameHash::of("users"), 4, rule, 7)
    }

    fn row(rule: Initializer, key: u64) -> [f32; 4] {
        let mut values = [f32::NAN; 4];
        table(rule).row(NameHash::of("users").hash_key(key), &mut values);
        values
    }

    fn many(rule: Initializer) -> Vec<f64> {
        (0..20_000).flat_map(|key| row(rule, key)).map(f64::from).collect()
    }

    fn mean_and_std(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn initial_values_of_rows_never_change() {
        assert_eq!(row(Initializer::UNIFORM, 42), [0.016_069_274, 0.032_117_467, -0.046_725_657, 0.028_605_375]);
        let normal = [0.019_992_772, -0.053_462_006, -0.069_910_59, -0.052_274_91];
        assert_eq!(row(Initializer::NORMAL, 42), normal);
        assert_eq!(row(Initializer::TruncatedNormal { mean: 0.0, std: 0.05 }, 42), normal);
        assert_eq!(row(Initializer::Constant(0.25), 42), [0.25; 4]);
    }

    #[test]
    fn tables_keys_and_seeds_have_different_values() {
        let values = |name: &str, seed, key| {
            let name = NameHash::of(name);
            let mut row = [0.0; 4];
            InitialValues::of_table(name, 4, Initializer::UNIFORM, seed).row(name.hash_key(key), &mut row);
            row
        };
        let all = [values("users", 7, 42), values("items", 7, 42), values("users", 8, 42), values("users", 7, 43)];
        for (i, one) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| other != one));
        }
    }

    #[test]
    fn an_element_of_a_variable_does_not_depend_on_the_slicing() {
        let initial = InitialValues::of_variable(NameHash::of("w"), &[300, 10], Initializer::GlorotNormal, 3);
        let (mut whole, mut pieces) = (vec![0.0; 3000], vec![0.0; 3000]);
        initial.elements(0, &mut whole);
        pieces.chunks_mut(97).enumerate().for_each(|(i, piece)| initial.elements(97 * i as u64, piece));
        assert_eq!(whole, pieces);
    }

    #[test]
    fn values_follow_the_requested_distribution() {
        let uniform = many(Initializer::Uniform { low: -1.0, high: 3.0 });
        let (mean, std) = mean_and_std(&uniform);
        assert!((mean - 1.0).abs() < 0.02 && (std - 4.0 / 12_f64.sqrt()).abs() < 0.01, "{mean} {std}");
        assert!(uniform.iter().all(|value| (-1.0..3.0).contains(value)));

        let (mean, std) = mean_and_std(&many(Initializer::Normal { mean: 2.0, std: 0.5 }));
        assert!((mean - 2.0).abs() < 0.01 && (std - 0.5).abs() < 0.005, "{mean} {std}");

        let truncated = many(Initializer::TruncatedNormal { mean: 0.0, std: 1.0 });
        let (mean, std) = mean_and_std(&truncated);
        assert!(mean.abs() < 0.01 && (std - TRUNCATED_STD).abs() < 0.01, "{mean} {std}");
        assert!(truncated.iter().all(|value| value.abs() <= 2.0));
    }

    #[test]
    fn the_width_of_a_layer_sets_the_range_of_its_initial_values() {
        let range = |rule, shape: &[u64]| {
            let mut values = vec![0.0; 4096];
            InitialValues::of_variable(NameHash::of("w"), shape, rule, 1).elements(0, &mut values);
            values.into_iter().fold(0.0, |range: f32, value| range.max(value.abs()))
        };
        let assert_near =
            |found: f32, wanted: f64| assert!((f64::from(found) / wanted - 1.0).abs() < 0.01, "{found} {wanted}");
        assert_near(range(Initializer::GlorotUniform, &[100, 50]), (6.0_f64 / 150.0).sqrt());
        assert_near(range(Initializer::HeUniform, &[100, 50]), (6.0_f64 / 100.0).sqrt());
        assert_near(range(Initializer::LecunUniform, &[3, 3, 8, 16]), (3.0_f64 / 72.0).sqrt());
        assert_near(range(Initializer::GlorotUniform, &[64]), (6.0_f64 / 128.0).sqrt());
    }
}
