//! Everything the ledger of the shards can decide: the closed list of what a journal keeps.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::Round;
use serde::{Deserialize, Serialize};

use super::dataset::DatasetSpec;
use super::grant::{GrantId, Promise};
use super::position::Position;
use super::ranges::Batches;
use super::worker::WorkerId;
use crate::Cause;

/// Something that was decided. Applying the facts in order to an empty ledger gives the same ledger again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fact {
    /// The job has this dataset.
    Registered {
        /// Which.
        spec: DatasetSpec,
    },
    /// An epoch has begun.
    Begun {
        /// Of which dataset.
        dataset: Arc<str>,
        /// Its number, from 0.
        epoch: u32,
    },
    /// Batches are a worker's until it has acknowledged them or they are returned.
    Granted {
        /// The number of the grant; never used again.
        grant: GrantId,
        /// Whose.
        worker: WorkerId,
        /// Of which dataset.
        dataset: Arc<str>,
        /// Of which epoch.
        epoch: u32,
        /// Which batches.
        batches: Batches,
        /// What the worker does about answers that were lost.
        promise: Promise,
        /// They are under suspicion, and nothing else is leased to the worker beside them.
        alone: bool,
    },
    /// Batches of a grant are done.
    Accounted {
        /// Of which grant.
        grant: GrantId,
        /// Which.
        batches: Batches,
    },
    /// Batches of a grant can be had by others.
    Returned {
        /// Of which grant.
        grant: GrantId,
        /// Which.
        batches: Batches,
        /// How many records of them a worker may have gone through already.
        repeated: u64,
        /// They may be what the program failed of, so that they are leased one by one.
        suspects: bool,
        /// Why.
        cause: Cause,
    },
    /// The program of a worker failed in a round; whose fault it was is not known yet.
    Failed {
        /// Who.
        worker: WorkerId,
        /// In which round.
        round: Round,
    },
    /// Whose fault the end of a worker was is known: what has followed from it was decided with this.
    Judged {
        /// Who.
        worker: WorkerId,
    },
    /// The slowest worker needs about this long for a batch.
    Paced {
        /// Of which dataset.
        dataset: Arc<str>,
        /// How long.
        batch_time: Duration,
    },
    /// The program has failed of this batch and nothing else, once more.
    Charged {
        /// Of which dataset.
        dataset: Arc<str>,
        /// Of which epoch.
        epoch: u32,
        /// Which.
        batch: u64,
    },
    /// A batch was taken out, because the program fails of it.
    Quarantined {
        /// Of which dataset.
        dataset: Arc<str>,
        /// Of which epoch.
        epoch: u32,
        /// Which.
        batch: u64,
        /// Why.
        cause: Cause,
    },
    /// The ledger stands where it stood before; every grant is void.
    Rewound {
        /// Where.
        position: Position,
    },
}

impl Fact {
    /// Whether it must survive the end of the machine before anybody hears of it.
    pub fn must_be_durable(&self) -> bool {
        match self {
            Fact::Registered { .. } | Fact::Granted { .. } | Fact::Quarantined { .. } | Fact::Rewound { .. } => true,
            // A worker that can replay says these again; for others the service waits anyway.
            Fact::Begun { .. }
            | Fact::Accounted { .. }
            | Fact::Returned { .. }
            | Fact::Failed { .. }
            | Fact::Judged { .. }
            | Fact::Paced { .. }
            | Fact::Charged { .. } => false,
        }
    }
}
