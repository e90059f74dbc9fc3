//! Native training: the built-in models, what they read, what they learn, and how well.
//!
//! Bytes of records become a [`Batch`] ([`features`]); a model ([`models`]) says which rows it needs of a batch
//! ([`Lookup`]) and, given these and its variables, scores and gradients, with hand-written arithmetic ([`kernels`]);
//! [`metrics`] say how good the scores are. [`training`] puts these together with the job's ledger and its parameter
//! servers; [`train_alone`] in one process; [`predicting`] uses what was learnt.

mod batch;
mod described;
pub mod features;
pub mod kernels;
mod learning;
pub mod ledger;
mod lookup;
pub mod metrics;
pub mod models;
pub mod predicting;
mod reading;
mod scoring;
pub mod train_alone;
pub mod training;

pub use batch::{Batch, Inputs};
pub use described::DescriptionError;
pub use learning::read_optimizer;
pub use lookup::{Lookup, TableLookup};
pub use reading::ReadError;
pub use scoring::ScoringError;
