//! The parts of a dense layer besides the product: bias and ReLU, forward and backward.

/// Sets every row to the bias, so that a product can be added.
///
/// # Panics
///
/// When `rows` is not a whole number of rows as wide as the bias.
pub fn begin_with_bias(bias: &[f32], rows: &mut [f32]) {
    assert!(!bias.is_empty() && rows.len().is_multiple_of(bias.len()), "rows are as wide as their bias");
    rows.chunks_exact_mut(bias.len()).for_each(|row| row.copy_from_slice(bias));
}

/// The column sums of rows as wide as `sums`, from the first row to the last: the gradient of a bias.
pub fn sum_columns(rows: &[f32], sums: &mut [f32]) {
    sums.fill(0.0);
    for row in rows.chunks_exact(sums.len().max(1)) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += value;
        }
    }
}

/// Sets negative values to 0. NaN stays, so a broken model is noticed.
pub fn relu(values: &mut [f32]) {
    for value in values {
        *value = if *value < 0.0 { 0.0 } else { *value };
    }
}

/// The gradient before ReLU, from the gradient and the outputs after it.
pub fn relu_backward(outputs: &[f32], gradients: &mut [f32]) {
    for (gradient, output) in gradients.iter_mut().zip(outputs) {
        *gradient = if *output > 0.0 { *gradient } else { 0.0 };
    }
}
