//! The product of a matrix and a single column, where tiles would mostly multiply zeros.
//!
//! The last layer of a model with one output is such a product, forward and backward. The order of additions is fixed,
//! but differs from that of tiles: a row is summed in [`LANES`] interleaved chains.

use super::{Matrix, add_scaled};

/// Chains per row sum; enough to fill the vectors of any machine.
const LANES: usize = 16;

/// `c += a · b`, where `b` has one column.
pub(super) fn add_product(a: Matrix<'_>, b: Matrix<'_>, c: &mut [f32]) {
    // A single column and its transpose are stored alike.
    let b = if b.is_transposed() { b.stored(0, 0, b.rows()) } else { b.stored_from(0, 0).0 };
    if a.is_transposed() {
        for (line, scale) in b.iter().enumerate() {
            add_scaled(*scale, a.stored(line, 0, a.rows()), c);
        }
    } else {
        for (row, sum) in c.iter_mut().enumerate() {
            *sum += dot(a.stored(row, 0, a.columns()), b);
        }
    }
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left, left_rest) = left.as_chunks::<LANES>();
    let (right, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (left, right) in left.iter().zip(right) {
        for lane in 0..LANES {
            sums[lane] += left[lane] * right[lane];
        }
    }
    for (sum, (left, right)) in sums.iter_mut().zip(left_rest.iter().zip(right_rest)) {
        *sum += left * right;
    }
    sums.iter().sum()
}
