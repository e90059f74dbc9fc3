//! Stock PyTorch as a client: its torchrun loses and gains nodes, its TCPStore client speaks to our store, its programs
//! lease their data from our master. And ElasticDL's released worker, which trains with our parameter servers.
//!
//! Those of torchrun tell what happens to a job when its nodes, its network, its master or its program fail; `bench
//! recovery` measures how long each takes. Deadlines here only keep a failing test from waiting for ever.

mod chaos;
mod data;
mod elasticdl;
mod endings;
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
