//! How optimizers move values, by their definitions.

use flexor_ps::spec::Optimizer;

/// An optimizer at work.
pub(super) struct Moves {
    optimizer: Optimizer,
}

impl Moves {
    pub(super) fn new(optimizer: Optimizer) -> Self {
        Self { optimizer }
    }

    /// How many values are kept beside each weight.
    pub(super) fn slots(&self) -> usize {
        self.optimizer.slots().len()
    }

    /// The slots of weights that were never moved: all first slots, then all second ones.
    pub(super) fn new_slots(&self, weights: usize) -> Vec<f32> {
        vec![self.optimizer.initial_slot(); weights * self.slots()]
    }

    /// Moves weights; this is step number `t` of theirs, from 1.
    pub(super) fn take(&self, weights: &mut [f32], slots: &mut [f32], gradients: &[f32], t: u32) {
        let (first, second) = slots.split_at_mut(if slots.is_empty() { 0 } else { weights.len() });
        match self.optimizer {
            Optimizer::Sgd { learning_rate, momentum, nesterov } if momentum > 0.0 => {
                for ((weight, v), g) in weights.iter_mut().zip(first).zip(gradients) {
                    *v = momentum * *v + g;
                    *weight -= learning_rate * if nesterov { g + momentum * *v } else { *v };
                }
            }
            Optimizer::Sgd { learning_rate, .. } => {
                weights.iter_mut().zip(gradients).for_each(|(weight, g)| *weight -= learning_rate * g);
            }
            Optimizer::Adagrad { learning_rate, epsilon, .. } => {
                for ((weight, a), g) in weights.iter_mut().zip(first).zip(gradients) {
                    *a += g * g;
                    *weight -= learning_rate * g / (a.sqrt() + epsilon);
                }
            }
            Optimizer::Adam { learning_rate, beta1, beta2, epsilon } => {
                let t = t.min(i32::MAX as u32) as i32;
                let rate = learning_rate * (1.0 - beta2.powi(t)).sqrt() / (1.0 - beta1.powi(t));
                for (((weight, m), v), g) in weights.iter_mut().zip(first).zip(second).zip(gradients) {
                    *m = beta1 * *m + (1.0 - beta1) * g;
                    *v = beta2 * *v + (1.0 - beta2) * g * g;
                    *weight -= rate * *m / (v.sqrt() + epsilon);
                }
            }
        }
    }
}
