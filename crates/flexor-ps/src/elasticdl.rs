//! ElasticDL's parameter server: the service `proto.Pserver`, for the unchanged workers of ElasticDL's releases.
//!
//! In such jobs the workers place variables and rows ([`crate::legacy_placement`]), and a server keeps what it
//! receives. There is no partition map, no master and no rebalancing. A server hosts all 256 partitions of its own
//! model in the same [`HostedPartitions`](crate::hosted::HostedPartitions) as a native server. One partition would
//! suffice for storage. All exist because locks, files and conversions work per partition, and a row has the same
//! partition under both placements.
//!
//! [`Parameters`] has the logic without sockets. [`ElasticdlServer`] is the service and writes checkpoints.
//! [`LoadedCheckpoint`] reads checkpoints back, for any number of servers and for both placements.

mod checkpoints;
mod convert;
#[cfg(test)]
mod corpus;
mod gradients;
mod loaded_checkpoint;
mod native_service_stub;
mod options;
mod parameters;
mod refusal;
mod service;
mod tensor;

pub use checkpoints::Checkpoints;
pub use convert::convert;
pub use loaded_checkpoint::{LoadError, LoadedCheckpoint, ModelShare};
pub use options::{Mode, Options};
pub use parameters::{GradientsOutcome, Parameters};
pub use refusal::Refusal;
pub use service::{ElasticdlServer, MAX_MESSAGE};
pub use tensor::TensorError;
