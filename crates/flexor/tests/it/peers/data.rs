//! The data of a job that PyTorch trains with, and of programs that speak gRPC in another language: whatever is killed
//! meanwhile, the books are right to the record.

mod poison;
mod sessions;
mod torch_mnist;
