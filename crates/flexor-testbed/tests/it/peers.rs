//! Tests with the programs that Flexor replaces, as they come from their makers.

mod environments;
mod torch_mnist;
mod torchrun;
