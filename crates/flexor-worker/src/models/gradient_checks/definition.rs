//! The models as their papers define them: slow, in double precision, and independent of the models' code.

use std::cell::Cell;
use std::collections::HashMap;

use super::super::{Architecture, Declaration};
use crate::features::crossed;
use crate::{Batch, Lookup};

/// Parameters by name: a variable's own name, or [`name_of_row`].
pub(super) type Named = HashMap<String, Vec<f64>>;

/// Collects the parameters by name.
pub(super) fn named(declaration: &Declaration, lookup: &Lookup, variables: &[Vec<f32>], rows: &[Vec<f32>]) -> Named {
    let names = declaration.variables.iter().map(|variable| variable.name.clone());
    let variables = names.zip(variables.iter().map(|values| widened(values)));
    let rows = declaration.tables.iter().zip(lookup.tables()).zip(rows).flat_map(|((table, lookup), rows)| {
        let rows = rows.chunks_exact(table.dim as usize).map(widened);
        lookup.keys().iter().map(|key| name_of_row(&table.name, *key)).zip(rows)
    });
    variables.chain(rows).collect()
}

pub(super) fn name_of_row(table: &str, key: u64) -> String {
    format!("{table} of {key}")
}

fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// A model with everything that its loss needs.
pub(super) struct Definition<'a> {
    pub(super) architecture: &'a Architecture,
    pub(super) batch: &'a Batch,
    pub(super) parameters: Named,
    /// How near the input of a hidden unit has come to zero, where the loss has no slope.
    pub(super) nearest_kink: Cell<f64>,
}

impl Definition<'_> {
    /// The mean loss of the batch.
    pub(super) fn loss(&self) -> f64 {
        let losses = (0..self.batch.len()).map(|record| {
            let label = self.batch.labels()[record] as usize;
            match self.scores(record).as_slice() {
                [score] => (1.0 + (if label == 1 { -score } else { *score }).exp()).ln(),
                scores => scores.iter().map(|score| score.exp()).sum::<f64>().ln() - scores[label],
            }
        });
        losses.sum::<f64>() / self.batch.len() as f64
    }

    fn scores(&self, record: usize) -> Vec<f64> {
        let keys = self.batch.keys_of(record);
        let numbers: Vec<f64> = widened(self.batch.numbers_of(record));
        let rows = |table: &str| keys.iter().map(|key| self.row(table, *key).to_vec()).collect::<Vec<_>>();
        let deep_inputs = |embeddings: &[Vec<f64>]| [embeddings.concat(), numbers.clone()].concat();
        match self.architecture {
            Architecture::Logistic => {
                let linear: f64 = rows("linear").iter().map(|row| row[0]).sum();
                vec![linear + self.weighted("linear/numbers", &numbers) + self.parameters["linear/bias"][0]]
            }
            Architecture::WideDeep { crosses, .. } => {
                let pairs = crosses.iter().map(|cross| crossed(keys[cross.0], keys[cross.1]));
                let wide: f64 = keys.iter().copied().chain(pairs).map(|key| self.row("wide", key)[0]).sum();
                let deep = self.deep(deep_inputs(&rows("embedding")))[0];
                vec![wide + self.weighted("wide/numbers", &numbers) + deep]
            }
            Architecture::DeepFm { .. } => {
                let rows = rows("embedding");
                let linear: f64 = rows.iter().map(|row| row[0]).sum();
                let embeddings: Vec<Vec<f64>> = rows.iter().map(|row| row[1..].to_vec()).collect();
                let pairs = (0..embeddings.len()).flat_map(|left| (0..left).map(move |right| (left, right)));
                let pairs: f64 = pairs.map(|(left, right)| dot(&embeddings[left], &embeddings[right])).sum();
                let deep = self.deep(deep_inputs(&embeddings))[0];
                vec![linear + self.weighted("linear/numbers", &numbers) + pairs + deep]
            }
            Architecture::Mlp { .. } => self.deep(numbers),
        }
    }

    fn row(&self, table: &str, key: u64) -> &[f64] {
        &self.parameters[&name_of_row(table, key)]
    }

    fn weighted(&self, weights: &str, numbers: &[f64]) -> f64 {
        self.parameters.get(weights).map_or(0.0, |weights| dot(weights, numbers))
    }

    fn deep(&self, mut values: Vec<f64>) -> Vec<f64> {
        for layer in 0.. {
            let Some(weight) = self.parameters.get(&format!("deep/{layer}/weight")) else { break };
            if layer > 0 {
                let nearest = values.iter().fold(self.nearest_kink.get(), |nearest, value| nearest.min(value.abs()));
                self.nearest_kink.set(nearest);
                values.iter_mut().for_each(|value| *value = value.max(0.0));
            }
            let bias = &self.parameters[&format!("deep/{layer}/bias")];
            let sum = |output: usize| {
                let column = weight.iter().skip(output).step_by(bias.len());
                bias[output] + values.iter().zip(column).map(|(value, weight)| value * weight).sum::<f64>()
            };
            values = (0..bias.len()).map(sum).collect();
        }
        values
    }
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}
