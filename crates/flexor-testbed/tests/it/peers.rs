//! Tests with the released programs that Flexor replaces.

mod environments;
mod torch_mnist;
mod torchrun;
