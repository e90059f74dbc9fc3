//! ElasticDL's parameter server: the service `proto.Pserver`, so that its released workers train here unchanged.
//!
//! Such jobs have the placement of their workers ([`crate::legacy_placement`]): server i keeps what it is sent. So there
//! is no map, no master and no live change. A server holds all 256 partitions of a model of its own, in the same
//! [`Hosted`](crate::hosted::Hosted) as native ones, and meets only the variables and rows that are sent to it. One
//! partition would do for keeping them; all are there because locks, files and conversions go by partitions, and a row
//! lies in the same one whoever keeps it.
//!
//! [`Parameters`] decides what a call does, without sockets; [`Server`] is the service around it, and writes
//! checkpoints; [`Kept`] reads them back, for any number of servers and for both placements.

mod checkpoints;
mod convert;
#[cfg(test)]
mod corpus;
mod gradients;
mod kept;
mod native_refused;
mod options;
mod parameters;
mod refusal;
mod service;
mod tensor;

pub use checkpoints::Checkpoints;
pub use convert::convert;
pub use kept::{Keeper, Kept, KeptError};
pub use options::{Mode, Options};
pub use parameters::{Parameters, PushOutcome};
pub use refusal::Refusal;
pub use service::{MAX_MESSAGE, Server};
pub use tensor::TensorError;
