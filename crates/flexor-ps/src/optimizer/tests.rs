//! Compares each optimizer with its definition in f64 and with known answers.

use proptest::prelude::*;

use super::*;

/// The definitions for one element, in f64.
struct Reference {
    optimizer: Optimizer,
    weight: f64,
    slots: [f64; 2],
    t: i32,
}

impl Reference {
    fn new(optimizer: Optimizer, weight: f32) -> Self {
        Self { optimizer, weight: weight.into(), slots: [optimizer.initial_slot().into(); 2], t: 0 }
    }

    fn step(&mut self, rate: f64, g: f64) {
        self.t += 1;
        let [first, second] = &mut self.slots;
        match self.optimizer {
            Optimizer::Sgd { momentum, nesterov, .. } => {
                let momentum = f64::from(momentum);
                *first = momentum * *first + g;
                self.weight -= rate * if nesterov { g + momentum * *first } else { *first };
            }
            Optimizer::Adagrad { epsilon, .. } => {
                *first += g * g;
                self.weight -= rate * g / (first.sqrt() + f64::from(epsilon));
            }
            Optimizer::Adam { beta1, beta2, epsilon, .. } => {
                let (beta1, beta2) = (f64::from(beta1), f64::from(beta2));
                *first = beta1 * *first + (1.0 - beta1) * g;
                *second = beta2 * *second + (1.0 - beta2) * g * g;
                let rate = rate * (1.0 - beta2.powi(self.t)).sqrt() / (1.0 - beta1.powi(self.t));
                self.weight -= rate * *first / (second.sqrt() + f64::from(epsilon));
            }
        }
    }
}

fn optimizers() -> [Optimizer; 5] {
    [
        Optimizer::sgd(0.1),
        Optimizer::Sgd { learning_rate: 0.1, momentum: 0.9, nesterov: false },
        Optimizer::Sgd { learning_rate: 0.1, momentum: 0.9, nesterov: true },
        Optimizer::adagrad(0.1),
        Optimizer::adam(0.01),
    ]
}

fn values_of(kernel: &Kernel, weights: &[f32]) -> Vec<f32> {
    let mut values = weights.to_vec();
    values.resize(weights.len() * (1 + kernel.slots()), kernel.initial_slot());
    values
}

proptest! {
    #[test]
    fn every_optimizer_follows_its_definition(
        which in 0_usize..5,
        weights in prop::collection::vec(-2.0_f32..2.0, 1..40),
        gradients in prop::collection::vec(prop::collection::vec(-1.5_f32..1.5, 40), 1..30),
    ) {
        let kernel = Kernel::new(optimizers()[which]);
        let rate = kernel.rate(0.0, 0);
        let width = weights.len();
        let mut values = values_of(&kernel, &weights);
        let mut references: Vec<_> = weights.iter().map(|weight| Reference::new(optimizers()[which], *weight)).collect();
        for (t, gradient) in (1..).zip(&gradients) {
            kernel.step(rate).take(&mut values, width, 0..width, &gradient[..width], t);
            references.iter_mut().zip(gradient).for_each(|(reference, g)| reference.step(rate.into(), (*g).into()));
        }
        for (value, reference) in values.iter().zip(&references) {
            let error = (f64::from(*value) - reference.weight).abs();
            prop_assert!(error < 2e-5 * (1.0 + reference.weight.abs()), "{value} or {}", reference.weight);
        }
    }

    #[test]
    fn a_step_of_a_range_equals_the_step_of_its_elements(which in 0_usize..5, start in 0_usize..20, len in 0_usize..20) {
        let kernel = Kernel::new(optimizers()[which]);
        let weights: Vec<f32> = (0..40).map(|i| i as f32 / 10.0).collect();
        let gradient: Vec<f32> = (0..40).map(|i| (i as f32 - 20.0) / 7.0).collect();
        let (mut whole, mut part) = (values_of(&kernel, &weights), values_of(&kernel, &weights));
        let untouched = part.clone();
        kernel.step(0.1).take(&mut whole, 40, 0..40, &gradient, 1);
        kernel.step(0.1).take(&mut part, 40, start..start + len, &gradient[start..start + len], 1);
        for i in 0..whole.len() {
            let inside = (start..start + len).contains(&(i % 40));
            prop_assert_eq!(part[i], if inside { whole[i] } else { untouched[i] });
        }
    }
}

/// Weight and slots of one element after `steps` steps with the same gradient.
fn after(optimizer: Optimizer, weight: f32, gradient: f32, steps: u32) -> Vec<f32> {
    let kernel = Kernel::new(optimizer);
    let mut values = values_of(&kernel, &[weight]);
    for t in 1..=steps {
        kernel.step(kernel.rate(0.0, 0)).take(&mut values, 1, 0..1, &[gradient], t);
    }
    values
}

#[test]
fn steps_match_the_known_answers_of_elasticdl() {
    // Five steps of Adam with g = 1 and a rate of 0.1 from 0, as pulled from ElasticDL's released server.
    let adam = Optimizer::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.999, epsilon: 1e-7 };
    assert!((after(adam, 0.0, 1.0, 5)[0] + 0.499_999_02).abs() < 1e-6);
    assert!((after(adam, 0.0, -0.3, 1)[0] - 0.1).abs() < 2e-6);
    let adagrad = Optimizer::Adagrad { learning_rate: 0.1, epsilon: 1e-7, initial_accumulator: 0.0 };
    assert!((after(adagrad, 0.0, 0.01, 1)[0] + 0.1 * 0.01 / (0.01 + 1e-7)).abs() < 1e-8);
    assert_eq!(after(Optimizer::sgd(0.1), 1.0, 1.0, 1), [0.9]);
}

#[test]
fn a_zero_gradient_moves_nothing_even_with_zero_epsilon() {
    let adagrad = Optimizer::Adagrad { learning_rate: 0.1, epsilon: 0.0, initial_accumulator: 0.0 };
    let adam = Optimizer::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.999, epsilon: 0.0 };
    assert_eq!(after(adagrad, 0.5, 0.0, 3)[0], 0.5);
    assert_eq!(after(adam, 0.5, 0.0, 3)[0], 0.5);
}

#[test]
fn staleness_divides_the_learning_rate() {
    let kernel = Kernel::new(Optimizer::sgd(0.1));
    assert_eq!(kernel.rate(0.0, 0), 0.1);
    assert_eq!(kernel.rate(0.4, 1), 0.4);
    assert_eq!(kernel.rate(0.4, 4), 0.1);
}
