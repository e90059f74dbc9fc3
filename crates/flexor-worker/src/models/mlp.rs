//! A multilayer perceptron on the numeric features of a record, with one logit per class: for images such as MNIST's.
//!
//! Its variables are `deep/0/weight`, `deep/0/bias`, and so on for every layer. Checkpoints contain these names, which
//! the other models use for their dense layers too. It has no embedding tables.

use super::dense_stack::DenseStack;
use super::{Declaration, Gradients, Model, Step, Task};
use crate::{Batch, Inputs, Lookup};

#[derive(Debug)]
pub struct Mlp {
    inputs: Inputs,
    declaration: Declaration,
    stack: DenseStack,
    score_gradients: Vec<f32>,
}

impl Mlp {
    pub fn new(inputs: Inputs, hidden: &[usize]) -> Self {
        let mut declaration = Declaration::default();
        let widths: Vec<usize> =
            [&[inputs.numbers], hidden, &[inputs.classes as usize]].into_iter().flatten().copied().collect();
        let stack = DenseStack::declare("deep", &widths, &mut declaration);
        Self { inputs, declaration, stack, score_gradients: Vec::new() }
    }
}

impl Model for Mlp {
    fn task(&self) -> Task {
        Task::OneOf { classes: self.inputs.classes }
    }

    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn look_up(&self, _: &Batch, _: &mut Lookup) {}

    fn scores(&mut self, step: Step<'_>) -> &[f32] {
        self.declaration.check(&step);
        self.stack.forward(step.variables, step.batch.numbers(), step.batch.len())
    }

    fn gradients(&mut self, step: Step<'_>, gradients: &mut Gradients) {
        self.declaration.check(&step);
        self.declaration.prepare(&step, gradients);
        let numbers = step.batch.numbers();
        let scores = self.stack.forward(step.variables, numbers, step.batch.len());
        gradients.of_classes(step.batch, scores, &mut self.score_gradients);
        self.stack.backward(step.variables, numbers, &self.score_gradients, &mut gradients.variables, None);
    }
}
