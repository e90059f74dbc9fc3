//! Simple models come close to the best result, so the generated data can be learned.

use super::auc::Auc;
use super::clicks::{Clicks, VOCABULARIES};
use super::digits::{self, PIXELS};
use super::noise::{Noise, sigmoid};
use super::table::{Table, Value};

/// A parameter that is trained with Adagrad.
#[derive(Clone, Copy)]
struct Weight {
    value: f32,
    squares: f32,
}

impl Weight {
    fn around_zero(noise: Noise) -> Self {
        Self { value: 0.05 * noise.bell() as f32, squares: 0.1 }
    }

    fn learn(&mut self, gradient: f32, rate: f32) {
        self.squares += gradient * gradient;
        self.value -= rate * gradient / self.squares.sqrt();
    }
}

const DIMENSIONS: usize = 8;

/// A factorization machine over the categories of a click log, and a linear model of its numbers.
struct Machine {
    bias: Weight,
    slopes: [Weight; 4],
    /// For each value of each category: its weight and its vector.
    values: Vec<Vec<(Weight, [Weight; DIMENSIONS])>>,
}

impl Machine {
    fn new() -> Self {
        let zero = Weight { value: 0.0, squares: 0.1 };
        let noise = Noise::new(99);
        let vector = |field: u64, value: u64| {
            std::array::from_fn(|at| Weight::around_zero(noise.of(field).of(value).of(at as u64)))
        };
        let field =
            |(field, count): (u64, u32)| (0..count).map(|value| (zero, vector(field, u64::from(value)))).collect();
        Self { bias: zero, slopes: [zero; 4], values: (0..).zip(VOCABULARIES).map(field).collect() }
    }

    /// The probability of a click; trains if a label is given.
    fn predict(&mut self, row: &[Value], label: Option<bool>) -> f64 {
        let numbers: [f32; 4] = std::array::from_fn(|at| match row[1 + at] {
            Value::Thousandths(number) => number as f32 / 1000.0,
            Value::Integer(_) | Value::Word(_) => panic!("n{at} is a number"),
        });
        let categories: [usize; VOCABULARIES.len()] = std::array::from_fn(|at| match row[5 + at] {
            Value::Integer(value) => value as usize,
            Value::Thousandths(_) | Value::Word(_) => panic!("c{at} is a category"),
        });
        let mut evidence = self.bias.value;
        evidence += self.slopes.iter().zip(numbers).map(|(slope, number)| slope.value * number).sum::<f32>();
        let mut sum = [0.0_f32; DIMENSIONS];
        let mut squares = 0.0;
        for (field, value) in self.values.iter().zip(categories) {
            evidence += field[value].0.value;
            for (sum, part) in sum.iter_mut().zip(&field[value].1) {
                *sum += part.value;
                squares += part.value * part.value;
            }
        }
        evidence += (sum.iter().map(|sum| sum * sum).sum::<f32>() - squares) / 2.0;
        let probability = sigmoid(f64::from(evidence));
        if let Some(label) = label {
            const RATE: f32 = 0.05;
            const OF_VECTORS: f32 = 0.03;
            let error = (probability - f64::from(u8::from(label))) as f32;
            self.bias.learn(error, RATE);
            self.slopes.iter_mut().zip(numbers).for_each(|(slope, number)| slope.learn(error * number, RATE));
            for (field, value) in self.values.iter_mut().zip(categories) {
                let (own, vector) = &mut field[value];
                own.learn(error, RATE);
                vector.iter_mut().zip(sum).for_each(|(part, sum)| part.learn(error * (sum - part.value), OF_VECTORS));
            }
        }
        probability
    }
}

#[test]
fn a_factorization_machine_comes_within_a_hundredth_of_the_best_auc_on_clicks() {
    const TRAIN: u64 = 500_000;
    const TEST: u64 = 50_000;
    let clicks = Clicks::new(1);
    let mut machine = Machine::new();
    let mut row = Vec::new();
    for number in 0..TRAIN {
        row.clear();
        let (label, _) = clicks.row(number, &mut row);
        machine.predict(&row, Some(label));
    }
    let (mut learned, mut best) = (Auc::new(), Auc::new());
    for number in TRAIN..TRAIN + TEST {
        row.clear();
        let (label, probability) = clicks.row(number, &mut row);
        learned.add(machine.predict(&row, None), label);
        best.add(probability, label);
    }
    let (learned, best) = (learned.value().unwrap(), best.value().unwrap());
    assert!((0.78..0.82).contains(&best), "{best}");
    assert!(best - learned < 0.01, "learned {learned}, best {best}");
}

const HIDDEN: usize = 32;

/// A perceptron with one hidden layer.
struct Perceptron {
    /// Weights from each pixel and the bias to the hidden units.
    first: Vec<[f32; HIDDEN]>,
    /// Weights from each hidden unit and the bias to the classes.
    second: Vec<[f32; 10]>,
}

impl Perceptron {
    fn new() -> Self {
        let noise = Noise::new(98);
        let drawn = |layer: u64, from: usize, to: usize| noise.of(layer).of(from as u64).of(to as u64).bell() as f32;
        Self {
            first: (0..=PIXELS).map(|from| std::array::from_fn(|to| 0.05 * drawn(0, from, to))).collect(),
            second: (0..=HIDDEN).map(|from| std::array::from_fn(|to| 0.2 * drawn(1, from, to))).collect(),
        }
    }

    /// The class of an image; trains if a label is given.
    fn predict(&mut self, pixels: &[u8; PIXELS], label: Option<u8>, rate: f32) -> u8 {
        let inputs: Vec<(usize, f32)> =
            pixels.iter().map(|pixel| f32::from(*pixel) / 255.0).chain([1.0]).enumerate().collect();
        let inputs: Vec<(usize, f32)> = inputs.into_iter().filter(|(_, input)| *input > 0.0).collect();
        let mut hidden = [0.0; HIDDEN];
        for (at, input) in &inputs {
            hidden.iter_mut().zip(&self.first[*at]).for_each(|(sum, weight)| *sum += input * weight);
        }
        hidden.iter_mut().for_each(|unit| *unit = unit.max(0.0));
        let mut outputs = self.second[HIDDEN];
        for (unit, weights) in hidden.iter().zip(&self.second) {
            outputs.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += unit * weight);
        }
        let largest = outputs.iter().copied().fold(f32::MIN, f32::max);
        let class = outputs.iter().position(|output| *output == largest).unwrap() as u8;
        if let Some(label) = label {
            let mut errors = outputs.map(|output| (output - largest).exp());
            let total: f32 = errors.iter().sum();
            errors.iter_mut().for_each(|error| *error /= total);
            errors[usize::from(label)] -= 1.0;
            let mut back = [0.0; HIDDEN];
            for ((back, unit), weights) in back.iter_mut().zip(hidden).zip(&mut self.second) {
                for (weight, error) in weights.iter_mut().zip(errors) {
                    *back += if unit > 0.0 { *weight * error } else { 0.0 };
                    *weight -= rate * error * unit;
                }
            }
            self.second[HIDDEN].iter_mut().zip(errors).for_each(|(weight, error)| *weight -= rate * error);
            for (at, input) in &inputs {
                self.first[*at].iter_mut().zip(back).for_each(|(weight, back)| *weight -= rate * back * input);
            }
        }
        class
    }
}

#[test]
fn a_small_perceptron_passes_97_percent_on_digits() {
    const TRAIN: u64 = 12_000;
    const TEST: u64 = 2_000;
    let mut perceptron = Perceptron::new();
    for epoch in 0..4_u8 {
        for number in 0..TRAIN {
            let (label, pixels) = digits::draw(1, number);
            perceptron.predict(&pixels, Some(label), 0.03 / f32::from(epoch + 1));
        }
    }
    let right = (TRAIN..TRAIN + TEST).filter(|number| {
        let (label, pixels) = digits::draw(1, *number);
        perceptron.predict(&pixels, None, 0.0) == label
    });
    let accuracy = right.count() as f64 / TEST as f64;
    assert!(accuracy > 0.97, "{accuracy}");
}
