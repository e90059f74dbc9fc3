//! Tests with stock PyTorch as the client: torchrun loses and gains nodes, the TCPStore client uses our store, and
//! programs lease data from our master. ElasticDL's released worker trains with our parameter servers.
//!
//! The torchrun tests fail nodes, network, master and program of a job. `bench recovery` measures the recovery times;
//! the deadlines here only end a failing test.

mod chaos;
mod data;
mod elasticdl;
mod endings;
mod failures;
mod growth;
mod hangs;
mod job;
mod launch;
mod losses;
mod master_losses;
mod newcomers;
mod partitions;
mod run;
mod store_client;
mod survive;
mod torch_mnist;
