//! Dense layers on top of each other, ReLU between them: the deep part of every model that has one.
//!
//! Layer `i` owns the variables `PREFIX/i/weight` of shape \[inputs, outputs\] and `PREFIX/i/bias`; the last one gives
//! scores, without ReLU.

use flexor_ps::spec::Initializer;

use super::Declaration;
use crate::kernels::{Matrix, Products, begin_with_bias, relu, relu_backward, sum_columns};

/// The layers and their last activations.
#[derive(Debug, Default)]
pub(super) struct DenseStack {
    layers: Vec<Layer>,
    products: Products,
}

#[derive(Debug)]
struct Layer {
    inputs: usize,
    outputs: usize,
    /// Indices of its variables.
    weight: usize,
    bias: usize,
    /// Its outputs, after ReLU except in the last layer.
    activations: Vec<f32>,
    /// The derivative of the loss by its outputs.
    gradients: Vec<f32>,
}

impl DenseStack {
    /// Declares layers of the given widths; the first width is that of the input.
    pub(super) fn declare(prefix: &str, widths: &[usize], declaration: &mut Declaration) -> Self {
        let layers = widths.windows(2).enumerate().map(|(at, pair)| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let last = at + 2 == widths.len();
            let init = if last { Initializer::GlorotUniform } else { Initializer::HeUniform };
            let weight = declaration.variable(format!("{prefix}/{at}/weight"), &[inputs, outputs], init);
            let bias = declaration.variable(format!("{prefix}/{at}/bias"), &[outputs], Initializer::Zeros);
            Layer { inputs, outputs, weight, bias, activations: Vec::new(), gradients: Vec::new() }
        });
        Self { layers: layers.collect(), products: Products::default() }
    }

    /// The scores of `records` inputs.
    pub(super) fn forward(&mut self, variables: &[Vec<f32>], input: &[f32], records: usize) -> &[f32] {
        let last = self.layers.len() - 1;
        for at in 0..self.layers.len() {
            let (below, rest) = self.layers.split_at_mut(at);
            let (layer, input) = (&mut rest[0], below.last().map_or(input, |below| &below.activations));
            layer.activations.resize(records * layer.outputs, 0.0);
            begin_with_bias(&variables[layer.bias], &mut layer.activations);
            let weight = Matrix::new(&variables[layer.weight], layer.inputs, layer.outputs);
            self.products.add(Matrix::new(input, records, layer.inputs), weight, &mut layer.activations);
            if at < last {
                relu(&mut layer.activations);
            }
        }
        &self.layers[last].activations
    }

    /// The backward pass of the last [`Self::forward`], from the derivatives by each score. Writes the gradients of the
    /// layers' variables and, if requested, those of the input.
    pub(super) fn backward(
        &mut self,
        variables: &[Vec<f32>],
        input: &[f32],
        score_gradients: &[f32],
        gradients: &mut [Vec<f32>],
        input_gradients: Option<&mut Vec<f32>>,
    ) {
        let Some(last) = self.layers.last_mut() else { return };
        last.gradients.clear();
        last.gradients.extend_from_slice(score_gradients);
        let records = score_gradients.len() / last.outputs;
        for at in (0..self.layers.len()).rev() {
            let (below, rest) = self.layers.split_at_mut(at);
            let layer = &mut rest[0];
            let input = below.last().map_or(input, |below| &below.activations);
            let above = Matrix::new(&layer.gradients, records, layer.outputs);
            let input = Matrix::new(input, records, layer.inputs);
            self.products.store(input.transposed(), above, &mut gradients[layer.weight]);
            sum_columns(&layer.gradients, &mut gradients[layer.bias]);
            let Some(below) = below.last_mut() else { break };
            below.gradients.resize(records * layer.inputs, 0.0);
            let weight = Matrix::new(&variables[layer.weight], layer.inputs, layer.outputs);
            self.products.store(above, weight.transposed(), &mut below.gradients);
            relu_backward(&below.activations, &mut below.gradients);
        }
        if let (Some(input_gradients), Some(first)) = (input_gradients, self.layers.first()) {
            input_gradients.resize(records * first.inputs, 0.0);
            let above = Matrix::new(&first.gradients, records, first.outputs);
            let weight = Matrix::new(&variables[first.weight], first.inputs, first.outputs);
            self.products.store(above, weight.transposed(), input_gradients);
        }
    }
}
