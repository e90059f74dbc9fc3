//! The arithmetic of the built-in models: products of small matrices, layers, and losses with their derivatives.
//!
//! Every kernel is single-threaded, and its order of additions follows from the shapes alone. The vector width never
//! changes that order. Each multiplication is always or never fused with its addition. Exponentials do not come from
//! the system's library. The same input therefore gives the same bits on every machine. Products use the widest
//! instructions available, chosen in one place ([`Products`]).
//!
//! It is *not* a tensor library: there is no graph, no broadcasting and no allocation. Models write their own backward
//! pass on slices.

mod column;
mod layer;
mod loss;
mod matrix;
mod products;
#[cfg(test)]
mod tests;

pub use layer::{begin_with_bias, relu, relu_backward, sum_columns};
pub use loss::{cross_entropy_of, log_loss, log_loss_of, probability, softmax, softmax_cross_entropy};
pub use matrix::Matrix;
pub use products::Products;

/// `sum += scale · values`, element by element.
pub fn add_scaled(scale: f32, values: &[f32], sum: &mut [f32]) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum += scale * value;
    }
}
