//! Tests of the program on this machine, without a cluster or PyTorch.

mod background;
mod bounds;
mod checkpoint;
mod completion;
mod crd;
mod damaged_data;
pub mod data;
mod data_files;
mod documents;
mod exit_codes;
pub mod faults;
mod help;
mod json;
pub mod launch;
mod manifests;
mod paddle;
mod ps_elasticdl;
pub mod run;
mod sidecar;
mod sim;
mod sources;
mod tutorials;
mod validate;
mod verbs;
mod world_socket;
