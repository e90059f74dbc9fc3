//! How gradients move values, and the numbers that belong to each way.
//!
//! The arithmetic is [`crate::optimizer`]'s. A further optimizer is a variant here, a kernel there, and its slots.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An optimizer with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Optimizer {
    /// Gradient descent. With momentum μ > 0: v = μ·v + g, then p −= lr·v, or with Nesterov p −= lr·(g + μ·v).
    Sgd {
        /// The learning rate.
        learning_rate: f32,
        /// How much of the last step is kept; 0 keeps no state at all.
        #[serde(default)]
        momentum: f32,
        /// Whether the step looks ahead.
        #[serde(default)]
        nesterov: bool,
    },
    /// a += g², then p −= lr·g / (√a + ε).
    Adagrad {
        /// The learning rate.
        learning_rate: f32,
        /// ε.
        epsilon: f32,
        /// What a begins with.
        initial_accumulator: f32,
    },
    /// m = β₁·m + (1−β₁)·g, v = β₂·v + (1−β₂)·g², p −= lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε), t counted per row or slice.
    Adam {
        /// The learning rate.
        learning_rate: f32,
        /// β₁.
        beta1: f32,
        /// β₂.
        beta2: f32,
        /// ε.
        epsilon: f32,
    },
}

/// An optimizer that cannot be.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum OptimizerError {
    /// A number out of its range.
    #[error("the {what} is {value}; {possible}")]
    Number {
        /// Which number.
        what: &'static str,
        /// What was given.
        value: f32,
        /// What would be possible.
        possible: &'static str,
    },
    /// Nesterov without momentum.
    #[error("nesterov needs a momentum above 0")]
    Nesterov,
    /// An optimizer that is not there.
    #[error("no optimizer '{0}'; there are SGD, Adagrad and Adam")]
    Unknown(String),
    /// AMSGrad, which is not there yet.
    #[error("amsgrad=True is not supported; use Adam with amsgrad=False")]
    Amsgrad,
    /// An argument that is not `name=value;`.
    #[error("'{0}' is not an argument of the form name=value")]
    Argument(String),
    /// An argument that the optimizer does not have.
    #[error("{optimizer} has no argument '{argument}'; it has {known}")]
    Surplus {
        /// The optimizer.
        optimizer: &'static str,
        /// The argument.
        argument: String,
        /// Those that it has.
        known: String,
    },
    /// An argument without which it cannot be.
    #[error("{optimizer} needs the argument '{argument}'")]
    Missing {
        /// The optimizer.
        optimizer: &'static str,
        /// The argument.
        argument: &'static str,
    },
}

impl Optimizer {
    /// Plain gradient descent.
    pub fn sgd(learning_rate: f32) -> Self {
        Self::Sgd { learning_rate, momentum: 0.0, nesterov: false }
    }

    /// Adagrad with the numbers of Keras.
    pub fn adagrad(learning_rate: f32) -> Self {
        Self::Adagrad { learning_rate, epsilon: 1e-7, initial_accumulator: 0.1 }
    }

    /// Adam with the numbers of Keras.
    pub fn adam(learning_rate: f32) -> Self {
        Self::Adam { learning_rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-7 }
    }

    /// The learning rate it was configured with.
    pub fn learning_rate(&self) -> f32 {
        match *self {
            Self::Sgd { learning_rate, .. }
            | Self::Adagrad { learning_rate, .. }
            | Self::Adam { learning_rate, .. } => learning_rate,
        }
    }

    /// The names of the values that it keeps beside each weight; checkpoints carry them.
    pub fn slots(&self) -> &'static [&'static str] {
        match *self {
            Self::Sgd { momentum, .. } if momentum > 0.0 => &["momentum"],
            Self::Sgd { .. } => &[],
            Self::Adagrad { .. } => &["accumulator"],
            Self::Adam { .. } => &["m", "v"],
        }
    }

    /// What the slots begin with.
    pub fn initial_slot(&self) -> f32 {
        match *self {
            Self::Adagrad { initial_accumulator, .. } => initial_accumulator,
            Self::Sgd { .. } | Self::Adam { .. } => 0.0,
        }
    }

    /// Whether a row must know how many steps it has taken.
    pub fn counts_steps(&self) -> bool {
        matches!(self, Self::Adam { .. })
    }

    /// Its name, as `opt_type` has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sgd { .. } => "SGD",
            Self::Adagrad { .. } => "Adagrad",
            Self::Adam { .. } => "Adam",
        }
    }

    /// Whether its numbers are such that it can take steps.
    pub fn check(&self) -> Result<(), OptimizerError> {
        const RATE: &str = "it must be finite and not negative";
        const BELOW_1: &str = "it must be at least 0 and below 1";
        let rate = |what, value: f32| match value.is_finite() && value >= 0.0 {
            true => Ok(()),
            false => Err(OptimizerError::Number { what, value, possible: RATE }),
        };
        let below_1 = |what, value: f32| match (0.0..1.0).contains(&value) {
            true => Ok(()),
            false => Err(OptimizerError::Number { what, value, possible: BELOW_1 }),
        };
        rate("learning rate", self.learning_rate())?;
        match *self {
            Self::Sgd { momentum, nesterov, .. } => {
                below_1("momentum", momentum)?;
                if nesterov && momentum == 0.0 { Err(OptimizerError::Nesterov) } else { Ok(()) }
            }
            Self::Adagrad { epsilon, initial_accumulator, .. } => {
                rate("epsilon", epsilon)?;
                rate("initial accumulator", initial_accumulator)
            }
            Self::Adam { beta1, beta2, epsilon, .. } => {
                below_1("beta1", beta1)?;
                below_1("beta2", beta2)?;
                rate("epsilon", epsilon)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        let adam = Optimizer::Adam { learning_rate: 0.1, beta1: 1.0, beta2: 0.9, epsilon: 0.0 };
        assert!(adam.check().unwrap_err().to_string().contains("beta1 is 1"));
        let nesterov = Optimizer::Sgd { learning_rate: 0.1, momentum: 0.0, nesterov: true };
        assert_eq!(nesterov.check(), Err(OptimizerError::Nesterov));
    }
}
