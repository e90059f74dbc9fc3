//! The arithmetic of one optimizer step on the weights and slots of a row or slice.
//!
//! Values are laid out as weights, then each slot, all of one width. A step may cover a range of them. Loops are plain
//! so that the compiler vectorises them. Every operation gives the same bits on every machine. A new optimizer is a new
//! variant of [`Step`].

mod correction;
#[cfg(test)]
mod tests;

use std::ops::Range;

use correction::Corrections;

use crate::spec::Optimizer;

/// Replaces an ε of 0. It is too small to change a step, and avoids 0/0 where gradient and accumulator are 0. A
/// condition in the loop would prevent vectorisation.
const LEAST_EPSILON: f32 = 1e-20;

/// An optimizer with its precomputed corrections.
#[derive(Debug)]
pub(crate) struct Kernel {
    optimizer: Optimizer,
    corrections: Corrections,
}

/// One optimizer with one learning rate.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'a> {
    Sgd { rate: f32 },
    Momentum { rate: f32, momentum: f32 },
    Nesterov { rate: f32, momentum: f32 },
    Adagrad { rate: f32, epsilon: f32 },
    Adam { rate: f32, beta1: f32, beta2: f32, epsilon: f32, corrections: &'a Corrections },
}

impl Kernel {
    pub(crate) fn new(optimizer: Optimizer) -> Self {
        let corrections = match optimizer {
            Optimizer::Adam { beta1, beta2, .. } => Corrections::new(beta1, beta2),
            Optimizer::Sgd { .. } | Optimizer::Adagrad { .. } => Corrections::default(),
        };
        Self { optimizer, corrections }
    }

    /// Slots per weight.
    pub(crate) fn slots(&self) -> usize {
        self.optimizer.slots().len()
    }

    pub(crate) fn initial_slot(&self) -> f32 {
        self.optimizer.initial_slot()
    }

    pub(crate) fn counts_steps(&self) -> bool {
        self.optimizer.counts_steps()
    }

    /// The learning rate of a push: the requested one if above 0, else the configured one. A staleness above 1 divides
    /// it.
    pub(crate) fn rate(&self, requested: f32, staleness: u64) -> f32 {
        let rate = if requested > 0.0 { requested } else { self.optimizer.learning_rate() };
        if staleness > 1 { rate / staleness as f32 } else { rate }
    }

    pub(crate) fn step(&self, rate: f32) -> Step<'_> {
        match self.optimizer {
            Optimizer::Sgd { momentum, nesterov: true, .. } if momentum > 0.0 => Step::Nesterov { rate, momentum },
            Optimizer::Sgd { momentum, nesterov: false, .. } if momentum > 0.0 => Step::Momentum { rate, momentum },
            Optimizer::Sgd { .. } => Step::Sgd { rate },
            Optimizer::Adagrad { epsilon, .. } => Step::Adagrad { rate, epsilon: epsilon.max(LEAST_EPSILON) },
            Optimizer::Adam { beta1, beta2, epsilon, .. } => {
                let (epsilon, corrections) = (epsilon.max(LEAST_EPSILON), &self.corrections);
                Step::Adam { rate, beta1, beta2, epsilon, corrections }
            }
        }
    }
}

impl Step<'_> {
    /// Applies the gradient to the elements in `range` of values that are `width` wide. `t` is their step number, from
    /// 1.
    #[inline]
    pub(crate) fn take(&self, values: &mut [f32], width: usize, range: Range<usize>, gradient: &[f32], t: u32) {
        let mut parts = values.chunks_mut(width).map(|part| &mut part[range.clone()]);
        let weights = parts.next().unwrap_or_default();
        match *self {
            Step::Sgd { rate } => {
                for (p, g) in weights.iter_mut().zip(gradient) {
                    *p -= rate * g;
                }
            }
            Step::Momentum { rate, momentum } => {
                let v = parts.next().unwrap_or_default();
                for ((p, v), g) in weights.iter_mut().zip(v).zip(gradient) {
                    *v = momentum * *v + g;
                    *p -= rate * *v;
                }
            }
            Step::Nesterov { rate, momentum } => {
                let v = parts.next().unwrap_or_default();
                for ((p, v), g) in weights.iter_mut().zip(v).zip(gradient) {
                    *v = momentum * *v + g;
                    *p -= rate * (g + momentum * *v);
                }
            }
            Step::Adagrad { rate, epsilon } => {
                let a = parts.next().unwrap_or_default();
                for ((p, a), g) in weights.iter_mut().zip(a).zip(gradient) {
                    *a += g * g;
                    *p -= rate * g / (a.sqrt() + epsilon);
                }
            }
            Step::Adam { rate, beta1, beta2, epsilon, corrections } => {
                let rate = rate * corrections.of(t);
                let (m, v) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                let (one_minus_beta1, one_minus_beta2) = (1.0 - beta1, 1.0 - beta2);
                for (((p, m), v), g) in weights.iter_mut().zip(m).zip(v).zip(gradient) {
                    *m = beta1 * *m + one_minus_beta1 * g;
                    *v = beta2 * *v + one_minus_beta2 * (g * g);
                    *p -= rate * *m / (v.sqrt() + epsilon);
                }
            }
        }
    }
}
