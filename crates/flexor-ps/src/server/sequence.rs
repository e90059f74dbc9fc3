//! Numbers that servers compare: partition generations, sync ids and sequence numbers. Each has a type of its own, so that
//! none is taken for another. Map epochs are [`flexor_model::MapEpoch`]s.

use std::fmt;

/// A partition's start after a loss or a restore. Data of earlier generations is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct PartitionGeneration(pub(super) u64);

/// A sync, by the id of the master's order. Later orders have higher ids, whichever server carries them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct SyncId(pub(super) u64);

/// Orders the changes of a partition. Also tells how far a replica is: the last change that it includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct SequenceNumber {
    pub(super) generation: PartitionGeneration,
    /// Counted per generation; 0 is its start.
    pub(super) number: u64,
}

impl SequenceNumber {
    pub(super) fn start_of(generation: PartitionGeneration) -> Self {
        Self { generation, number: 0 }
    }

    pub(super) fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "change {} of generation {}", self.number, self.generation.0)
    }
}
