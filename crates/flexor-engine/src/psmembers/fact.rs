//! What is decided about the servers, for the journal.

use std::sync::Arc;

use flexor_model::PsEpoch;
use serde::{Deserialize, Serialize};

use super::map::{Partition, Seat};
use crate::cause::Cause;

/// Something that was decided. Each must be durable before anybody acts on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// The job trains this model.
    Declared {
        /// As its workers describe it.
        model: Arc<str>,
    },
    /// There is a new map: these seats are other ones.
    Mapped {
        /// The number of the map.
        epoch: PsEpoch,
        /// What has changed.
        seats: Vec<(Partition, Seat)>,
        /// Why.
        cause: Cause,
    },
    /// Every partition went back to where it began anew: the data has to go back with them.
    Rewound {
        /// To which checkpoint; to the beginning without one.
        checkpoint: Option<u64>,
        /// Why.
        cause: Cause,
    },
    /// A checkpoint is begun; its number is used up, whatever becomes of it.
    Saving {
        /// Its number.
        checkpoint: u64,
    },
    /// A checkpoint is complete.
    Saved {
        /// Its number.
        checkpoint: u64,
        /// Where the data stood when it was begun.
        ledger: Arc<str>,
        /// The oldest that the master goes by beside it. Servers may keep older ones.
        #[serde(default)]
        oldest: u64,
    },
    /// A checkpoint cannot be read.
    Spoiled {
        /// Its number.
        checkpoint: u64,
        /// Why.
        cause: Cause,
    },
    /// Updates that a client was answered for were lost when a partition began again.
    Lost {
        /// Which partition.
        partition: Partition,
        /// Which of its beginnings they were of.
        origin: u64,
        /// How many, all together.
        updates: u64,
    },
    /// What clients were answered with, so that it is known what is lost with a server.
    Answered {
        /// Of partitions, which beginning and the highest version of it.
        answered: Vec<(Partition, u64, u64)>,
    },
}
