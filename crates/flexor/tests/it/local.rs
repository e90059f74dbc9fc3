//! The program by itself, on this machine.

mod crd;
mod documents;
mod exit_codes;
mod faults;
mod help;
mod json;
mod manifests;
mod sidecar;
mod sources;
mod validate;
