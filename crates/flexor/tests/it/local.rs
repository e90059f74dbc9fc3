//! The program by itself, on this machine.

mod crd;
pub mod data;
mod documents;
mod exit_codes;
pub mod faults;
mod help;
mod json;
pub mod launch;
mod manifests;
pub mod run;
mod sidecar;
mod sources;
mod validate;
mod verbs;
mod world_socket;
