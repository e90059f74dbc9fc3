//! The built-in models: what each learns, which rows it needs, its scores, and its gradients.
//!
//! A [`Model`] holds no parameters, only buffers: parameters come in with every [`Step`], pulled by whoever trains it,
//! and gradients go out. So the same code serves a worker with parameter servers and [`crate::train_alone`].
//!
//! It is *not* for optimizers, and not for reading data. Names of variables and tables are in checkpoints; they stand
//! at the top of each model's file and do not change.

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

/// What the scores of a model mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// One logit per record: how likely is a yes.
    YesNo,
    /// One logit per class and record: which class is it.
    OneOf {
        /// How many there are.
        classes: u32,
    },
}

impl Task {
    /// How many scores a record has.
    pub fn scores(self) -> usize {
        match self {
            Self::YesNo => 1,
            Self::OneOf { classes } => classes as usize,
        }
    }
}

/// A model that can be trained.
///
/// All methods panic when a step does not have the shapes that the model declares: parameters that were pulled for the
/// same declaration always do.
pub trait Model: Send {
    /// What its scores mean.
    fn task(&self) -> Task;

    /// Its variables and tables.
    fn declaration(&self) -> &Declaration;

    /// Finds the rows that a batch needs.
    fn look_up(&self, batch: &Batch, lookup: &mut Lookup);

    /// The scores of a batch, record by record: logits.
    fn scores(&mut self, step: Step<'_>) -> &[f32];

    /// The mean loss of a batch, and its derivative by every parameter that was used.
    ///
    /// The same step gives the same bits, whatever the model and `gradients` were used for before.
    fn gradients(&mut self, step: Step<'_>, gradients: &mut Gradients);
}

/// Sets a buffer to a length, all 0.
fn zeroed(buffer: &mut Vec<f32>, length: usize) {
    buffer.clear();
    buffer.resize(length, 0.0);
}
