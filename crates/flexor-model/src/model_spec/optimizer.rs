//! Optimizers and their hyperparameters.
//!
//! `flexor-ps` has the arithmetic. A new optimizer needs a variant here, a kernel there, and its slots.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An optimizer with its hyperparameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Optimizer {
    /// Gradient descent. With momentum μ > 0: v = μ·v + g, then p −= lr·v, or with Nesterov p −= lr·(g + μ·v).
    Sgd {
        learning_rate: f32,
        /// 0 needs no slot.
        #[serde(default)]
        momentum: f32,
        #[serde(default)]
        nesterov: bool,
    },
    /// a += g², then p −= lr·g / (√a + ε).
    Adagrad { learning_rate: f32, epsilon: f32, initial_accumulator: f32 },
    /// m = β₁·m + (1−β₁)·g, v = β₂·v + (1−β₂)·g², p −= lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m / (√v + ε), t counted per row or slice.
    Adam { learning_rate: f32, beta1: f32, beta2: f32, epsilon: f32 },
}

/// The optimizer is unknown or has invalid hyperparameters.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum OptimizerError {
    #[error("the {what} is {value}; {possible}")]
    Number { what: &'static str, value: f32, possible: &'static str },
    #[error("nesterov needs a momentum above 0")]
    Nesterov,
    #[error("no optimizer '{0}'; there are SGD, Adagrad and Adam")]
    Unknown(String),
    #[error("amsgrad=True is not supported; use Adam with amsgrad=False")]
    Amsgrad,
    #[error("'{0}' is not an argument of the form name=value")]
    Argument(String),
    #[error("{optimizer} has no argument '{argument}'; it has {known}")]
    Surplus { optimizer: &'static str, argument: String, known: String },
    #[error("{optimizer} needs the argument '{argument}'")]
    Missing { optimizer: &'static str, argument: &'static str },
}

impl Optimizer {
    pub fn sgd(learning_rate: f32) -> Self {
        Self::Sgd { learning_rate, momentum: 0.0, nesterov: false }
    }

    /// Adagrad with Keras' defaults.
    pub fn adagrad(learning_rate: f32) -> Self {
        Self::Adagrad { learning_rate, epsilon: 1e-7, initial_accumulator: 0.1 }
    }

    /// Adam with Keras' defaults.
    pub fn adam(learning_rate: f32) -> Self {
        Self::Adam { learning_rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-7 }
    }

    pub fn learning_rate(&self) -> f32 {
        match *self {
            Self::Sgd { learning_rate, .. }
            | Self::Adagrad { learning_rate, .. }
            | Self::Adam { learning_rate, .. } => learning_rate,
        }
    }

    /// The names of the slots beside each weight. Checkpoints contain them.
    pub fn slots(&self) -> &'static [&'static str] {
        match *self {
            Self::Sgd { momentum, .. } if momentum > 0.0 => &["momentum"],
            Self::Sgd { .. } => &[],
            Self::Adagrad { .. } => &["accumulator"],
            Self::Adam { .. } => &["m", "v"],
        }
    }

    /// The initial value of every slot.
    pub fn initial_slot(&self) -> f32 {
        match *self {
            Self::Adagrad { initial_accumulator, .. } => initial_accumulator,
            Self::Sgd { .. } | Self::Adam { .. } => 0.0,
        }
    }

    /// Whether rows count their steps.
    pub fn counts_steps(&self) -> bool {
        matches!(self, Self::Adam { .. })
    }

    /// The name in ElasticDL's `opt_type`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sgd { .. } => "SGD",
            Self::Adagrad { .. } => "Adagrad",
            Self::Adam { .. } => "Adam",
        }
    }

    /// Validates the hyperparameters.
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
