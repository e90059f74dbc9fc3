//! The data of a job with real processes: the workers of `examples/any-program` under `flexor launch`, whatever is killed
//! meanwhile, and the master's own report against the lines that the workers wrote.

mod api;
mod checkpoints;
mod endings;
mod examples;
pub mod kills;
mod order;
mod poison;
pub mod report;
mod worker;
