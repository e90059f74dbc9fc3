//! Training in Rust, without Python: the built-in models, their input and their metrics.
//!
//! [`features`] parses records into a [`Batch`]. A model ([`models`]) computes which embedding rows a batch needs ([`Lookup`])
//! and, from these rows and its variables, scores and gradients with hand-written arithmetic ([`kernels`]). [`metrics`]
//! computes measures such as AUC from the scores. [`trainer`] trains with the job's master, which leases
//! batches of records ([`ledger`]), and its parameter servers; [`standalone`] trains in one process. [`prediction`] applies a checkpoint to records.

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
