//! The facts that the ledger can decide: the closed list of what the journal stores of the data.
//!
//! A fact states a change and its cause, never a request. [`apply`](super::apply) turns facts into state.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::Round;
use serde::{Deserialize, Serialize};

use super::dataset_spec::DatasetSpec;
use super::grant::{ClientKind, GrantId};
use super::position::Position;
use super::ranges::Batches;
use super::worker::WorkerId;
use crate::Cause;

/// A decision. Applying all facts in order to an empty ledger rebuilds the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fact {
    /// The job has this dataset.
    Registered { spec: DatasetSpec },
    /// An epoch, counted from 0, has begun.
    EpochBegun { dataset: Arc<str>, epoch: u32 },
    /// Batches are reserved for a worker until it acknowledges them or they are returned.
    Granted {
        /// Never used again.
        grant: GrantId,
        worker: WorkerId,
        dataset: Arc<str>,
        epoch: u32,
        batches: Batches,
        client: ClientKind,
        /// The batch is a suspect, and the worker leases nothing else beside it.
        alone: bool,
    },
    /// Batches of a grant are acknowledged.
    Accounted { grant: GrantId, batches: Batches },
    /// Batches of a grant are free for other workers.
    Returned {
        grant: GrantId,
        batches: Batches,
        /// Records that a worker may have processed already.
        repeated: u64,
        /// The program may have failed on one of them, so each is leased alone.
        suspects: bool,
        cause: Cause,
    },
    /// The program of a worker failed in a round. Which worker caused it is not known yet.
    Failed { worker: WorkerId, round: Round },
    /// The failure of a worker is settled; its consequences are facts of the same record.
    FailureSettled { worker: WorkerId },
    /// The slowest worker needs about this long for a batch.
    BatchTimeMeasured { dataset: Arc<str>, batch_time: Duration },
    /// The program failed once more on this batch while its worker held no other.
    Charged { dataset: Arc<str>, epoch: u32, batch: u64 },
    /// The program fails on a batch, so no worker leases it any more.
    Quarantined { dataset: Arc<str>, epoch: u32, batch: u64, cause: Cause },
    /// The ledger is back at an earlier position; every grant is void.
    Rewound { position: Position },
}

impl Fact {
    /// Whether the fact must be durable before any client learns of it.
    pub fn must_be_durable(&self) -> bool {
        match self {
            Fact::Registered { .. } | Fact::Granted { .. } | Fact::Quarantined { .. } | Fact::Rewound { .. } => true,
            // Resuming workers repeat these. For stateless clients the service waits anyway.
            Fact::EpochBegun { .. }
            | Fact::Accounted { .. }
            | Fact::Returned { .. }
            | Fact::Failed { .. }
            | Fact::FailureSettled { .. }
            | Fact::BatchTimeMeasured { .. }
            | Fact::Charged { .. } => false,
        }
    }
}
