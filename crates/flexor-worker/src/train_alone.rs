//! Training in one process: a model with its parameters in plain maps.
//!
//! The same steps as a worker with parameter servers takes, one after the other, without network, leases or
//! checkpoints. Tests use it to show that models learn, and defaults are tuned with it. Initial values are drawn in
//! another way than on servers, so the two come to models that are equally good, not equal.

mod initial;
mod moves;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use flexor_ps::spec::{ModelSpec, Optimizer};

use crate::models::{Gradients, Model, Step};
use crate::{Batch, Lookup};
use initial::Initial;
use moves::Moves;

/// A model and its parameters.
pub struct TrainAlone {
    model: Box<dyn Model>,
    moves: Moves,
    variables: Vec<Vec<f32>>,
    variable_slots: Vec<Vec<f32>>,
    steps: u32,
    tables: Vec<Table>,
    /// Buffers of a step.
    lookup: Lookup,
    rows: Vec<Vec<f32>>,
    gradients: Gradients,
}

/// An embedding table.
struct Table {
    initial: Initial,
    dim: usize,
    /// Where the row of a key is.
    places: HashMap<u64, usize>,
    weights: Vec<f32>,
    slots: Vec<f32>,
    steps: Vec<u32>,
    /// Where the rows of this step are.
    looked_up: Vec<usize>,
}

impl TrainAlone {
    /// An untrained model.
    pub fn new(model: Box<dyn Model>, optimizer: Optimizer, seed: u64) -> Self {
        let ModelSpec { variables, tables, .. } = model.declaration().with(optimizer, seed);
        let variables: Vec<Vec<f32>> = variables
            .iter()
            .map(|variable| {
                let mut values = vec![0.0; variable.elements() as usize];
                Initial::of_variable(variable, seed).fill(0, &mut values);
                values
            })
            .collect();
        let moves = Moves::new(optimizer);
        let variable_slots = variables.iter().map(|values| moves.new_slots(values.len())).collect();
        let tables: Vec<Table> = tables
            .iter()
            .map(|table| Table {
                initial: Initial::of_table(table, seed),
                dim: table.dim as usize,
                places: HashMap::new(),
                weights: Vec::new(),
                slots: Vec::new(),
                steps: Vec::new(),
                looked_up: Vec::new(),
            })
            .collect();
        let rows = vec![Vec::new(); tables.len()];
        let (lookup, gradients) = (Lookup::default(), Gradients::default());
        Self { model, moves, variables, variable_slots, steps: 0, tables, lookup, rows, gradients }
    }

    /// Takes one step, and gives what it found out: the loss and the scores before it.
    pub fn train(&mut self, batch: &Batch) -> &Gradients {
        self.model.look_up(batch, &mut self.lookup);
        for ((table, lookup), rows) in self.tables.iter_mut().zip(self.lookup.tables()).zip(&mut self.rows) {
            table.pull(lookup.keys(), &self.moves, rows);
        }
        let step = Step { batch, lookup: &self.lookup, variables: &self.variables, rows: &self.rows };
        self.model.gradients(step, &mut self.gradients);
        self.steps += 1;
        let variables = self.variables.iter_mut().zip(&mut self.variable_slots);
        for ((values, slots), gradients) in variables.zip(&self.gradients.variables) {
            self.moves.take(values, slots, gradients, self.steps);
        }
        for (table, gradients) in self.tables.iter_mut().zip(&self.gradients.rows) {
            table.push(gradients, &self.moves);
        }
        &self.gradients
    }

    /// The scores of records. Rows that were never trained have their initial values, and are not kept.
    pub fn scores(&mut self, batch: &Batch) -> &[f32] {
        self.model.look_up(batch, &mut self.lookup);
        for ((table, lookup), rows) in self.tables.iter().zip(self.lookup.tables()).zip(&mut self.rows) {
            table.peek(lookup.keys(), rows);
        }
        let step = Step { batch, lookup: &self.lookup, variables: &self.variables, rows: &self.rows };
        self.model.scores(step)
    }

    /// How many rows there are in all tables.
    pub fn rows(&self) -> usize {
        self.tables.iter().map(|table| table.places.len()).sum()
    }
}

impl Table {
    fn pull(&mut self, keys: &[u64], moves: &Moves, rows: &mut Vec<f32>) {
        rows.clear();
        self.looked_up.clear();
        for key in keys {
            let place = *self.places.entry(*key).or_insert_with(|| {
                let place = self.steps.len();
                self.steps.push(0);
                self.weights.resize((place + 1) * self.dim, 0.0);
                self.initial.fill(*key, &mut self.weights[place * self.dim..]);
                self.slots.append(&mut moves.new_slots(self.dim));
                place
            });
            self.looked_up.push(place);
            rows.extend_from_slice(&self.weights[place * self.dim..][..self.dim]);
        }
    }

    fn peek(&self, keys: &[u64], rows: &mut Vec<f32>) {
        rows.clear();
        for key in keys {
            match self.places.get(key) {
                Some(place) => rows.extend_from_slice(&self.weights[place * self.dim..][..self.dim]),
                None => {
                    let length = rows.len();
                    rows.resize(length + self.dim, 0.0);
                    self.initial.fill(*key, &mut rows[length..]);
                }
            }
        }
    }

    fn push(&mut self, gradients: &[f32], moves: &Moves) {
        let slots = moves.slots() * self.dim;
        for (place, gradients) in self.looked_up.iter().zip(gradients.chunks_exact(self.dim)) {
            self.steps[*place] += 1;
            let weights = &mut self.weights[place * self.dim..][..self.dim];
            moves.take(weights, &mut self.slots[place * slots..][..slots], gradients, self.steps[*place]);
        }
    }
}
