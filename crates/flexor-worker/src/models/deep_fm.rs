//! DeepFM: a linear term, the inner products of every pair of fields, and dense layers, all on the same embeddings.
//!
//! Table `embedding` has 1 + `dim` values per row: first the linear weight of the key, then its embedding, so one pull
//! brings both. Variables are `linear/numbers` (if there are numbers), `deep/i/weight` and `deep/i/bias`; the bias of
//! the last layer is that of the model. The dense layers read the embeddings of a record's fields in order, then its
//! numbers.

use flexor_ps::spec::Initializer;

use super::dense_stack::DenseStack;
use super::number_weights::NumberWeights;
use super::{Declaration, Gradients, Model, Step, Task, zeroed};
use crate::{Batch, Inputs, Lookup};

/// Small, so that pairs of untrained rows contribute almost nothing.
const EMBEDDING: Initializer = Initializer::Normal { mean: 0.0, std: 0.01 };

#[derive(Debug)]
pub struct DeepFm {
    inputs: Inputs,
    dim: usize,
    declaration: Declaration,
    numbers: NumberWeights,
    stack: DenseStack,
    /// The input of the dense layers, record by record.
    deep_inputs: Vec<f32>,
    deep_input_gradients: Vec<f32>,
    /// The sum of the embeddings of each record's fields.
    sums: Vec<f32>,
    scores: Vec<f32>,
    score_gradients: Vec<f32>,
}

impl DeepFm {
    /// The model of records of a width, with embeddings of `dim` values and hidden layers.
    ///
    /// # Panics
    ///
    /// When there are no fields, or embeddings without values.
    pub fn new(inputs: Inputs, dim: usize, hidden: &[usize]) -> Self {
        assert!(inputs.fields > 0 && dim > 0, "there is something to embed");
        let mut declaration = Declaration::default();
        declaration.table("embedding", 1 + dim, EMBEDDING);
        let numbers = NumberWeights::declare("linear/numbers", inputs, &mut declaration);
        let width = inputs.fields * dim + inputs.numbers;
        let widths: Vec<usize> = [&[width], hidden, &[1]].into_iter().flatten().copied().collect();
        let stack = DenseStack::declare("deep", &widths, &mut declaration);
        Self {
            inputs,
            dim,
            declaration,
            numbers,
            stack,
            deep_inputs: Vec::new(),
            deep_input_gradients: Vec::new(),
            sums: Vec::new(),
            scores: Vec::new(),
            score_gradients: Vec::new(),
        }
    }

    fn deep_width(&self) -> usize {
        self.inputs.fields * self.dim + self.inputs.numbers
    }

    /// Computes the linear and pair terms of every record, and the input of its dense layers.
    fn gather(&mut self, step: &Step<'_>) {
        let (records, dim, width) = (step.batch.len(), self.dim, self.deep_width());
        let (rows, places) = (&step.rows[0], step.lookup.tables()[0].positions());
        zeroed(&mut self.scores, records);
        zeroed(&mut self.sums, records * dim);
        self.deep_inputs.resize(records * width, 0.0);
        let places = places.chunks_exact(self.inputs.fields);
        let buffers = self.deep_inputs.chunks_exact_mut(width).zip(self.sums.chunks_exact_mut(dim));
        for (record, ((places, (deep, sums)), score)) in places.zip(buffers).zip(&mut self.scores).enumerate() {
            let (embeddings, numbers) = deep.split_at_mut(self.inputs.fields * dim);
            let (mut linear, mut squares) = (0.0, 0.0);
            for (place, deep) in places.iter().zip(embeddings.chunks_exact_mut(dim)) {
                let row = &rows[*place as usize * (1 + dim)..][..1 + dim];
                linear += row[0];
                for ((value, deep), sum) in row[1..].iter().zip(deep).zip(&mut *sums) {
                    *deep = *value;
                    *sum += value;
                }
            }
            for deep in embeddings.chunks_exact(dim) {
                squares += deep.iter().map(|value| value * value).sum::<f32>();
            }
            let of_sum: f32 = sums.iter().map(|sum| sum * sum).sum();
            *score = linear + 0.5 * (of_sum - squares);
            numbers.copy_from_slice(step.batch.numbers_of(record));
        }
    }

    /// Computes the derivative by every row, from those by the scores and by the input of the dense layers.
    fn scatter(&self, step: &Step<'_>, rows: &mut [f32]) {
        let (dim, width) = (self.dim, self.deep_width());
        let places = step.lookup.tables()[0].positions().chunks_exact(self.inputs.fields);
        let deep = self.deep_inputs.chunks_exact(width).zip(self.deep_input_gradients.chunks_exact(width));
        let records = places.zip(deep).zip(self.sums.chunks_exact(dim)).zip(&self.score_gradients);
        for (((places, (deep, deep_gradients)), sums), gradient) in records {
            let fields = deep.chunks_exact(dim).zip(deep_gradients.chunks_exact(dim));
            for (place, (deep, deep_gradients)) in places.iter().zip(fields) {
                let row = &mut rows[*place as usize * (1 + dim)..][..1 + dim];
                row[0] += gradient;
                let values = deep.iter().zip(deep_gradients).zip(sums);
                for (row, ((value, deep_gradient), sum)) in row[1..].iter_mut().zip(values) {
                    *row += gradient * (sum - value) + deep_gradient;
                }
            }
        }
    }
}

impl Model for DeepFm {
    fn task(&self) -> Task {
        Task::YesNo
    }

    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn look_up(&self, batch: &Batch, lookup: &mut Lookup) {
        lookup.table_mut(0).fill(batch.keys().iter().copied(), batch.keys().len());
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
        // Every part adds to the score, so each has the score's gradient.
        let above = &self.score_gradients;
        self.numbers.backward(&step, above, &mut gradients.variables);
        let deep_gradients = Some(&mut self.deep_input_gradients);
        self.stack.backward(step.variables, &self.deep_inputs, above, &mut gradients.variables, deep_gradients);
        self.scatter(&step, &mut gradients.rows[0]);
    }
}
