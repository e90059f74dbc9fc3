//! Who keeps which partition: the map that servers and clients go by.

use std::fmt;

use flexor_model::PsEpoch;
use serde::{Deserialize, Serialize};

use super::server::ServerId;

/// A part of the parameters that is kept and moved as one. Which keys are in it is decided by a hash, not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Partition(pub u32);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {}", self.0)
    }
}

/// What a partition began as, when it last began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Source {
    /// As the model declares it.
    Initial,
    /// As it stands in this checkpoint.
    Checkpoint(u64),
}

/// Which beginning of a partition this is. What belongs to an earlier one is worth nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// Counted for each partition, from 1.
    pub number: u64,
    /// Where its values come from.
    pub source: Source,
}

/// Who keeps a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Who answers for it. Nobody while there is no server for it.
    pub owner: Option<ServerId>,
    /// Who has everything that the owner has told anybody.
    pub backup: Option<ServerId>,
    /// Which beginning of it.
    pub origin: Origin,
    /// Since which map its owner has been that: what one before it says is worth nothing.
    #[serde(default)]
    pub since: PsEpoch,
}

impl Seat {
    /// Whether a server keeps it.
    pub fn is_kept_by(&self, server: &ServerId) -> bool {
        self.owner.as_ref() == Some(server) || self.backup.as_ref() == Some(server)
    }

    /// Who has everything beside the owner, when that is this one. An owner that gives its place away stays as the backup
    /// where none other is left.
    pub(super) fn backup_beside(&self, owner: &ServerId) -> Option<&ServerId> {
        [&self.backup, &self.owner].into_iter().flatten().find(|server| *server != owner)
    }
}

/// Everything that is mapped. Maps are numbered, and only the latest counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// Its number; 0 while there has been none.
    pub epoch: PsEpoch,
    /// By partition.
    pub seats: Vec<Seat>,
}

impl Map {
    /// The partitions with their seats.
    pub fn iter(&self) -> impl Iterator<Item = (Partition, &Seat)> {
        (0..).map(Partition).zip(&self.seats)
    }

    /// The seat of a partition.
    pub fn seat(&self, partition: Partition) -> Option<&Seat> {
        self.seats.get(partition.0 as usize)
    }

    pub(super) fn seat_mut(&mut self, partition: Partition) -> Option<&mut Seat> {
        self.seats.get_mut(partition.0 as usize)
    }
}
