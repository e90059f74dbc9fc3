//! Logistic regression: a weight for every key, a weight for every number, and a bias.
//!
//! Table `linear` (1 value), variables `linear/numbers` and `linear/bias`. Parts without input are not declared.

use flexor_ps::spec::Initializer;

use super::number_weights::NumberWeights;
use super::{Declaration, Gradients, Model, Step, Task};
use crate::{Batch, Inputs, Lookup};

#[derive(Debug)]
pub struct Logistic {
    inputs: Inputs,
    declaration: Declaration,
    numbers: NumberWeights,
    bias: usize,
    scores: Vec<f32>,
    score_gradients: Vec<f32>,
}

impl Logistic {
    pub fn new(inputs: Inputs) -> Self {
        let mut declaration = Declaration::default();
        if inputs.fields > 0 {
            declaration.table("linear", 1, Initializer::Zeros);
        }
        let numbers = NumberWeights::declare("linear/numbers", inputs, &mut declaration);
        let bias = declaration.variable("linear/bias".to_owned(), &[1], Initializer::Zeros);
        Self { inputs, declaration, numbers, bias, scores: Vec::new(), score_gradients: Vec::new() }
    }
}

impl Model for Logistic {
    fn task(&self) -> Task {
        Task::YesNo
    }

    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn look_up(&self, batch: &Batch, lookup: &mut Lookup) {
        if self.inputs.fields > 0 {
            lookup.table_mut(0).fill(batch.keys().iter().copied(), batch.keys().len());
        }
    }

    fn scores(&mut self, step: Step<'_>) -> &[f32] {
        self.declaration.check(&step);
        self.scores.clear();
        self.scores.resize(step.batch.len(), step.variables[self.bias][0]);
        if self.inputs.fields > 0 {
            let (rows, places) = (&step.rows[0], step.lookup.tables()[0].positions());
            for (score, places) in self.scores.iter_mut().zip(places.chunks_exact(self.inputs.fields)) {
                *score += places.iter().map(|place| rows[*place as usize]).sum::<f32>();
            }
        }
        self.numbers.add_to(&step, &mut self.scores);
        &self.scores
    }

    fn gradients(&mut self, step: Step<'_>, gradients: &mut Gradients) {
        self.scores(step);
        self.declaration.prepare(&step, gradients);
        gradients.of_yes_no(step.batch, &self.scores, &mut self.score_gradients);
        gradients.variables[self.bias][0] = self.score_gradients.iter().sum();
        self.numbers.backward(&step, &self.score_gradients, &mut gradients.variables);
        if self.inputs.fields > 0 {
            let places = step.lookup.tables()[0].positions().chunks_exact(self.inputs.fields);
            for (gradient, places) in self.score_gradients.iter().zip(places) {
                places.iter().for_each(|place| gradients.rows[0][*place as usize] += gradient);
            }
        }
    }
}
