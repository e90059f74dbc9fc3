//! The partition map: primary and backup of every partition, numbered by a map epoch.
//!
//! Servers and clients route by it. [`super::PsMembership`] decides each map; this module only holds the data.

use std::fmt;

use flexor_model::MapEpoch;
use serde::{Deserialize, Serialize};

use super::server::ServerId;

/// A part of the parameters that is stored and moved as a unit. A hash outside this crate assigns keys to partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Partition(pub u32);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {}", self.0)
    }
}

/// The values that a generation of a partition started from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Source {
    /// The initial values that the model declares.
    Initial,
    /// The values in the checkpoint of this number.
    Checkpoint(u64),
}

/// A partition's start after a loss or a restore. Data of earlier generations is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionGeneration {
    /// Counted per partition, from 1.
    pub number: u64,
    pub source: Source,
}

/// The servers that keep a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionReplicas {
    /// The server that answers clients; none while no server is available.
    pub primary: Option<ServerId>,
    /// The server that has every update that the primary has acknowledged.
    pub backup: Option<ServerId>,
    pub generation: PartitionGeneration,
    /// Map epoch in which the primary was appointed. Replication from an earlier primary is void.
    #[serde(default)]
    pub primary_since: MapEpoch,
}

impl PartitionReplicas {
    pub fn is_kept_by(&self, server: &ServerId) -> bool {
        self.primary.as_ref() == Some(server) || self.backup.as_ref() == Some(server)
    }

    /// The server other than `primary` that has everything, once `primary` is the primary. A primary that hands its
    /// partition over stays as the backup where there is no other.
    pub(super) fn backup_beside(&self, primary: &ServerId) -> Option<&ServerId> {
        [&self.backup, &self.primary].into_iter().flatten().find(|server| *server != primary)
    }
}

/// Primary and backup of every partition. Only the map with the highest epoch counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionMap {
    /// 0 before the first map.
    pub epoch: MapEpoch,
    /// Indexed by partition.
    pub partitions: Vec<PartitionReplicas>,
}

impl PartitionMap {
    pub fn iter(&self) -> impl Iterator<Item = (Partition, &PartitionReplicas)> {
        (0..).map(Partition).zip(&self.partitions)
    }

    pub fn replicas(&self, partition: Partition) -> Option<&PartitionReplicas> {
        self.partitions.get(partition.0 as usize)
    }

    pub(super) fn replicas_mut(&mut self, partition: Partition) -> Option<&mut PartitionReplicas> {
        self.partitions.get_mut(partition.0 as usize)
    }
}
