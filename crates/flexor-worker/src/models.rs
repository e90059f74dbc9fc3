//! The built-in models: their parameters, lookups, scores and gradients.
//!
//! A [`Model`] holds no parameters, only buffers. Parameters come in with every [`Step`] and gradients go out. The same
//! code therefore serves a worker with parameter servers and [`crate::standalone`].
//!
//! Optimizers and data reading are elsewhere. Checkpoints store the names of variables and tables; they are defined at
//! the top of each model's file and must not change.

mod architecture;
mod declaration;
mod deep_fm;
mod dense_stack;
#[cfg(test)]
mod gradient_checks;
mod logistic;
mod mlp;
mod number_weights;
mod step;
mod wide_deep;

pub use architecture::{Architecture, Hidden, UnfitInputs};
pub use declaration::Declaration;
pub use deep_fm::DeepFm;
pub use logistic::Logistic;
pub use mlp::Mlp;
pub use step::{Gradients, Step};
pub use wide_deep::{Cross, WideDeep};

use crate::{Batch, Lookup};

/// The meaning of a model's scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// One logit per record: the probability of a yes.
    YesNo,
    /// One logit per class and record.
    OneOf { classes: u32 },
}

impl Task {
    /// Scores per record.
    pub fn scores(self) -> usize {
        match self {
            Self::YesNo => 1,
            Self::OneOf { classes } => classes as usize,
        }
    }
}

/// A trainable model.
///
/// All methods panic when a step does not have the declared shapes. Parameters pulled for the same declaration always
/// have them.
pub trait Model: Send {
    fn task(&self) -> Task;

    fn declaration(&self) -> &Declaration;

    /// Fills `lookup` with the rows that a batch needs.
    fn look_up(&self, batch: &Batch, lookup: &mut Lookup);

    /// The scores of a batch, record by record, as logits.
    fn scores(&mut self, step: Step<'_>) -> &[f32];

    /// Computes the mean loss of a batch and its derivative by every used parameter.
    ///
    /// The same step gives the same bits, whatever the model and `gradients` were used for before.
    fn gradients(&mut self, step: Step<'_>, gradients: &mut Gradients);
}

/// Resizes a buffer and fills it with 0.
fn zeroed(buffer: &mut Vec<f32>, length: usize) {
    buffer.clear();
    buffer.resize(length, 0.0);
}
