//! Tests the data ledger with PyTorch and with gRPC programs in another language: every record is accounted for,
//! whatever is killed.

mod poison;
mod sessions;
mod torch_mnist;
