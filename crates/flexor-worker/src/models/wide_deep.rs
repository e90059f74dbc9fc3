//! Wide & deep: a linear model of single keys and pairs of keys, beside dense layers that generalise.
//!
//! Table `wide` (1 value) has the weight of every key, and of every pair of keys from two crossed fields. Table
//! `embedding` (`dim` values) is the input of the dense layers: the fields of a record in order, then its numbers.
//! Variables are `wide/numbers` (if there are numbers), `deep/i/weight` and `deep/i/bias`; the bias of the last layer
//! is that of the model.

use std::fmt;

use flexor_ps::spec::Initializer;

use super::dense_stack::DenseStack;
use super::number_weights::NumberWeights;
use super::{Declaration, Gradients, Model, Step, Task, zeroed};
use crate::features::crossed;
use crate::{Batch, Inputs, Lookup};

const WIDE: usize = 0;
const EMBEDDING: usize = 1;

/// Two fields, by number, whose pairs of values have weights; written `0x3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cross(pub usize, pub usize);

impl fmt::Display for Cross {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.0, self.1)
    }
}

#[derive(Debug)]
pub struct WideDeep {
    inputs: Inputs,
    dim: usize,
    crosses: Vec<Cross>,
    declaration: Declaration,
    numbers: NumberWeights,
    stack: DenseStack,
    /// The input of the dense layers, record by record.
    deep_inputs: Vec<f32>,
    deep_input_gradients: Vec<f32>,
    scores: Vec<f32>,
    score_gradients: Vec<f32>,
}

impl WideDeep {
    /// The model of records of a width, with crossed fields, embeddings of `dim` values and hidden layers.
    ///
    /// # Panics
    ///
    /// When there are no fields, embeddings without values, or a crossed field that is not there.
    pub fn new(inputs: Inputs, crosses: &[Cross], dim: usize, hidden: &[usize]) -> Self {
        assert!(inputs.fields > 0 && dim > 0, "there is something to embed");
        assert!(crosses.iter().all(|cross| cross.0.max(cross.1) < inputs.fields), "crossed fields exist");
        let mut declaration = Declaration::default();
        declaration.table("wide", 1, Initializer::Zeros);
        declaration.table("embedding", dim, Initializer::Normal { mean: 0.0, std: 0.05 });
        let numbers = NumberWeights::declare("wide/numbers", inputs, &mut declaration);
        let width = inputs.fields * dim + inputs.numbers;
        let widths: Vec<usize> = [&[width], hidden, &[1]].into_iter().flatten().copied().collect();
        let stack = DenseStack::declare("deep", &widths, &mut declaration);
        Self {
            inputs,
            dim,
            crosses: crosses.to_vec(),
            declaration,
            numbers,
            stack,
            deep_inputs: Vec::new(),
            deep_input_gradients: Vec::new(),
            scores: Vec::new(),
            score_gradients: Vec::new(),
        }
    }

    /// Uses of the wide table by one record.
    fn wide_uses(&self) -> usize {
        self.inputs.fields + self.crosses.len()
    }

    fn deep_width(&self) -> usize {
        self.inputs.fields * self.dim + self.inputs.numbers
    }

    fn gather(&mut self, step: &Step<'_>) {
        let (dim, width, uses) = (self.dim, self.deep_width(), self.wide_uses());
        let tables = step.lookup.tables();
        zeroed(&mut self.scores, step.batch.len());
        for (score, places) in self.scores.iter_mut().zip(tables[WIDE].positions().chunks_exact(uses)) {
            *score = places.iter().map(|place| step.rows[WIDE][*place as usize]).sum();
        }
        self.deep_inputs.resize(step.batch.len() * width, 0.0);
        let places = tables[EMBEDDING].positions().chunks_exact(self.inputs.fields);
        for (record, (places, deep)) in places.zip(self.deep_inputs.chunks_exact_mut(width)).enumerate() {
            let (embeddings, numbers) = deep.split_at_mut(self.inputs.fields * dim);
            for (place, deep) in places.iter().zip(embeddings.chunks_exact_mut(dim)) {
                deep.copy_from_slice(&step.rows[EMBEDDING][*place as usize * dim..][..dim]);
            }
            numbers.copy_from_slice(step.batch.numbers_of(record));
        }
    }

    fn scatter(&self, step: &Step<'_>, rows: &mut [Vec<f32>]) {
        let (dim, width) = (self.dim, self.deep_width());
        let tables = step.lookup.tables();
        let places = tables[WIDE].positions().chunks_exact(self.wide_uses());
        for (gradient, places) in self.score_gradients.iter().zip(places) {
            places.iter().for_each(|place| rows[WIDE][*place as usize] += gradient);
        }
        let places = tables[EMBEDDING].positions().chunks_exact(self.inputs.fields);
        for (places, deep) in places.zip(self.deep_input_gradients.chunks_exact(width)) {
            for (place, gradients) in places.iter().zip(deep.chunks_exact(dim)) {
                let row = &mut rows[EMBEDDING][*place as usize * dim..][..dim];
                row.iter_mut().zip(gradients).for_each(|(row, gradient)| *row += gradient);
            }
        }
    }
}

impl Model for WideDeep {
    fn task(&self) -> Task {
        Task::YesNo
    }

    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn look_up(&self, batch: &Batch, lookup: &mut Lookup) {
        let wide = (0..batch.len()).flat_map(|record| {
            let keys = batch.keys_of(record);
            let pairs = self.crosses.iter().map(|cross| crossed(keys[cross.0], keys[cross.1]));
            keys.iter().copied().chain(pairs)
        });
        lookup.table_mut(WIDE).fill(wide, batch.len() * self.wide_uses());
        lookup.table_mut(EMBEDDING).fill(batch.keys().iter().copied(), batch.keys().len());
    }

    fn scores(&mut self, step: Step<'_>) -> &[f32] {
        self.declaration.check(&step);
        self.gather(&step);
        self.numbers.add_to(&step, &mut self.scores);
        let deep = self.stack.forward(step.variables, &self.deep_inputs, step.batch.len());
        self.scores.iter_mut().zip(deep).for_each(|(score, deep)| *score += deep);
        &self.scores
    }

    fn gradients(&mut self, step: Step<'_>, gradients: &mut Gradients) {
        self.scores(step);
        self.declaration.prepare(&step, gradients);
        gradients.of_yes_no(step.batch, &self.scores, &mut self.score_gradients);
        // Both parts add to the score, so each has the score's gradient.
        let above = &self.score_gradients;
        self.numbers.backward(&step, above, &mut gradients.variables);
        let deep_gradients = Some(&mut self.deep_input_gradients);
        self.stack.backward(step.variables, &self.deep_inputs, above, &mut gradients.variables, deep_gradients);
        self.scatter(&step, &mut gradients.rows);
    }
}
