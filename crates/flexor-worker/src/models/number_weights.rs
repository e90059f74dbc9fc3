//! One weight for every number of a record: the linear term of the binary models.

use flexor_ps::spec::Initializer;

use super::{Declaration, Step};
use crate::Inputs;
use crate::kernels::{Matrix, Products};

/// The weights, if there are numbers.
#[derive(Debug)]
pub(super) struct NumberWeights {
    numbers: usize,
    variable: Option<usize>,
    products: Products,
}

impl NumberWeights {
    pub(super) fn declare(name: &str, inputs: Inputs, declaration: &mut Declaration) -> Self {
        let numbers = inputs.numbers;
        let variable = (numbers > 0).then(|| declaration.variable(name.to_owned(), &[numbers], Initializer::Zeros));
        Self { numbers, variable, products: Products::default() }
    }

    /// Adds the weighted numbers of each record to its score.
    pub(super) fn add_to(&mut self, step: &Step<'_>, scores: &mut [f32]) {
        let Some(variable) = self.variable else { return };
        let inputs = Matrix::new(step.batch.numbers(), step.batch.len(), self.numbers);
        let weights = Matrix::new(&step.variables[variable], self.numbers, 1);
        self.products.add(inputs, weights, scores);
    }

    /// Writes the gradient of the weights, from the derivatives by each score.
    pub(super) fn backward(&mut self, step: &Step<'_>, score_gradients: &[f32], gradients: &mut [Vec<f32>]) {
        let Some(variable) = self.variable else { return };
        let inputs = Matrix::new(step.batch.numbers(), step.batch.len(), self.numbers);
        let above = Matrix::new(score_gradients, step.batch.len(), 1);
        self.products.store(inputs.transposed(), above, &mut gradients[variable]);
    }
}
