//! Tests of the data ledger with real processes: the workers of `examples/any-program` under `flexor launch`.
//!
//! The tests kill processes and then compare the master's report with the lines that the workers wrote.

pub mod api;
mod checkpoints;
mod damaged_journal;
mod endings;
mod examples;
pub mod kills;
mod order;
mod poison;
pub mod report;
mod worker;
