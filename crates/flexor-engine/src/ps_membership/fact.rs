//! Decisions about the parameter servers, as the journal records them.

use std::sync::Arc;

use flexor_model::{MapEpoch, Spans};
use serde::{Deserialize, Serialize};

use super::partition_map::{Partition, PartitionReplicas};
use crate::cause::Cause;

/// A decision. The journal must hold it durably before anything acts on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    ModelDeclared {
        /// The description that the workers sent.
        model: Arc<str>,
    },
    /// A new partition map.
    MapChanged {
        epoch: MapEpoch,
        /// The partitions whose replicas differ from the map before.
        changed: Vec<(Partition, PartitionReplicas)>,
        cause: Cause,
    },
    /// Every partition started a new generation together. The data ledger goes back with them.
    Rewound {
        /// The checkpoint that all restart from; none: the initial values.
        checkpoint: Option<u64>,
        cause: Cause,
    },
    /// The number is used up, whether or not the checkpoint completes.
    CheckpointStarted { checkpoint: u64 },
    CheckpointCompleted {
        checkpoint: u64,
        /// The position in the data when the checkpoint started.
        ledger: Arc<str>,
        /// The oldest checkpoint that the master may still restore from. Servers may keep older ones.
        #[serde(default)]
        oldest: u64,
    },
    /// A checkpoint cannot be read.
    CheckpointDamaged { checkpoint: u64, cause: Cause },
    /// A new generation of a partition lacks updates that clients had been acknowledged.
    UpdatesLost {
        partition: Partition,
        /// The generation that contained the updates.
        generation: u64,
        /// Total for this generation.
        updates: u64,
    },
    /// More versions are acknowledged. The record of the batches that they belong to comes behind this one.
    VersionsAcknowledged {
        /// Generation, versions, numbers of the partitions.
        acknowledged: Vec<(u64, Spans, Spans)>,
    },
    /// Servers started generations of partitions.
    GenerationsStarted {
        /// Partition, generation, the version that it started with.
        started: Vec<(Partition, u64, u64)>,
    },
}
