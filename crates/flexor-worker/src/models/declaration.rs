//! The variables and tables of a model, and the check of a step against them.

use flexor_ps::spec::{Initializer, ModelSpec, Optimizer, TableSpec, VariableSpec};

use super::{Gradients, Step, zeroed};

/// The parameters of a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Declaration {
    pub variables: Vec<VariableSpec>,
    pub tables: Vec<TableSpec>,
}

impl Declaration {
    /// The complete specification that a job trains.
    pub fn with(&self, optimizer: Optimizer, seed: u64) -> ModelSpec {
        ModelSpec { variables: self.variables.clone(), tables: self.tables.clone(), optimizer, seed }
    }

    /// Declares a variable, and returns its index.
    pub(super) fn variable(&mut self, name: String, shape: &[usize], init: Initializer) -> usize {
        let shape = shape.iter().map(|side| *side as u64).collect();
        self.variables.push(VariableSpec { name, shape, init });
        self.variables.len() - 1
    }

    /// Declares a table, and returns its index.
    pub(super) fn table(&mut self, name: &str, dim: usize, init: Initializer) -> usize {
        self.tables.push(TableSpec { name: name.to_owned(), dim: dim as u32, init });
        self.tables.len() - 1
    }

    /// Panics when a step belongs to another model: no result would make sense.
    pub(super) fn check(&self, step: &Step<'_>) {
        assert_eq!(step.variables.len(), self.variables.len(), "a step has every variable");
        for (values, variable) in step.variables.iter().zip(&self.variables) {
            assert_eq!(values.len() as u64, variable.elements(), "elements of {}", variable.name);
        }
        assert_eq!(step.rows.len(), self.tables.len(), "a step has rows of every table");
        assert_eq!(step.lookup.tables().len(), self.tables.len(), "a lookup is of every table");
        for ((rows, table), lookup) in step.rows.iter().zip(&self.tables).zip(step.lookup.tables()) {
            assert_eq!(rows.len(), lookup.keys().len() * table.dim as usize, "values of rows of {}", table.name);
        }
    }

    /// Allocates the gradients of a step. Those of rows are 0, to be added to; those of variables are to be
    /// overwritten.
    pub(super) fn prepare(&self, step: &Step<'_>, gradients: &mut Gradients) {
        gradients.variables.resize_with(self.variables.len(), Vec::new);
        for (gradients, values) in gradients.variables.iter_mut().zip(step.variables) {
            gradients.resize(values.len(), 0.0);
        }
        gradients.rows.resize_with(self.tables.len(), Vec::new);
        for (gradients, values) in gradients.rows.iter_mut().zip(step.rows) {
            zeroed(gradients, values.len());
        }
    }
}
