//! Native training: the built-in models, their input and their metrics.
//!
//! [`features`] parses records into a [`Batch`]. A model ([`models`]) computes which rows a batch needs ([`Lookup`])
//! and, from these rows and its variables, scores and gradients with hand-written arithmetic ([`kernels`]). [`metrics`]
//! rates the scores. [`trainer`] trains with the job's data ledger and parameter servers, [`standalone`] in one
//! process. [`prediction`] applies a checkpoint to records.

mod batch;
mod batch_reader;
mod description;
pub mod features;
pub mod kernels;
pub mod ledger;
mod lookup;
pub mod metrics;
pub mod models;
mod optimizer;
pub mod prediction;
mod scorer;
pub mod standalone;
pub mod trainer;

pub use batch::{Batch, Inputs};
pub use batch_reader::ReadError;
pub use description::DescriptionError;
pub use lookup::{Lookup, TableLookup};
pub use optimizer::read_optimizer;
pub use scorer::ScoringError;
