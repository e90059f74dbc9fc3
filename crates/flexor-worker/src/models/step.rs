//! The input and output of one training step.

use crate::kernels::{log_loss, softmax_cross_entropy};
use crate::{Batch, Lookup};

/// A batch with the parameters that it needs.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    pub batch: &'a Batch,
    /// The rows of the batch, as the model looked them up.
    pub lookup: &'a Lookup,
    /// The values of every variable, in the order in which the model declares them.
    pub variables: &'a [Vec<f32>],
    /// For every table: the rows of the lookup's keys, in order.
    pub rows: &'a [Vec<f32>],
}

/// The result of a step. Reused between steps, so nothing is allocated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gradients {
    /// The mean loss of the batch before the step.
    pub loss: f64,
    /// The scores of the batch before the step, as [`super::Model::scores`] gives them.
    pub scores: Vec<f32>,
    /// The derivative of the mean loss by every variable.
    pub variables: Vec<Vec<f32>>,
    /// The derivative of the mean loss by every row of the lookup's keys. The uses of a row are added from the first
    /// record to the last.
    pub rows: Vec<Vec<f32>>,
}

impl Gradients {
    /// Stores the scores and the loss of a binary batch. Computes the derivative by each score.
    pub(super) fn of_yes_no(&mut self, batch: &Batch, scores: &[f32], score_gradients: &mut Vec<f32>) {
        self.take_over(batch, scores, score_gradients, |scale, score_gradients| {
            log_loss(scores, batch.labels(), scale, score_gradients)
        });
    }

    /// Stores the scores and the loss of a batch of classes. Computes the derivative by each score.
    pub(super) fn of_classes(&mut self, batch: &Batch, scores: &[f32], score_gradients: &mut Vec<f32>) {
        self.take_over(batch, scores, score_gradients, |scale, score_gradients| {
            let classes = batch.inputs().classes as usize;
            softmax_cross_entropy(scores, classes, batch.labels(), scale, score_gradients)
        });
    }

    fn take_over(
        &mut self,
        batch: &Batch,
        scores: &[f32],
        score_gradients: &mut Vec<f32>,
        loss: impl FnOnce(f32, &mut [f32]) -> f64,
    ) {
        self.scores.clear();
        self.scores.extend_from_slice(scores);
        score_gradients.resize(scores.len(), 0.0);
        let records = batch.len().max(1);
        self.loss = loss(1.0 / records as f32, score_gradients) / records as f64;
    }
}
