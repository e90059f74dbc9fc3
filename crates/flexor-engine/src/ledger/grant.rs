//! A grant: batches that are reserved for one worker.
//!
//! A grant is journaled before any of its batches is leased, and a lease is a piece of a grant. Leases and
//! acknowledgements therefore need no write of their own. After a restart the master knows from the grants which worker
//! may hold which batch.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ranges::{Batches, Ranges};
use super::worker::WorkerId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GrantId(pub u64);

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a worker recovers answers that were lost with the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientKind {
    /// It states again what it holds and what it acknowledged, so only the grant must be durable.
    Resuming,
    /// It repeats nothing, like a program that uses `curl`. It is answered when its request is durable.
    Stateless,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) worker: WorkerId,
    pub(super) dataset: Arc<str>,
    pub(super) epoch: u32,
    pub(super) client: ClientKind,
    pub(super) alone: bool,
    /// Not leased yet. Leases are not journaled, so a restarted master does not know these.
    pub(super) unleased: Ranges,
    /// Leased and not acknowledged. In doubt: perhaps leased, perhaps acknowledged.
    pub(super) leased: Ranges,
    pub(super) accounted: Ranges,
    /// The master was restarted, and the worker has not resumed yet.
    #[serde(skip)]
    pub(super) in_doubt: bool,
    /// The last lease or acknowledgement.
    #[serde(skip)]
    pub(super) progress_at: Duration,
}

impl Grant {
    /// Batches that are neither acknowledged nor returned.
    pub(super) fn outstanding(&self) -> u64 {
        self.unleased.count() + self.leased.count()
    }

    /// Removes outstanding batches, leased or not, and returns them.
    pub(super) fn withdraw(&mut self, batches: Batches) -> Ranges {
        let mut taken = self.leased.remove(batches);
        self.unleased.remove(batches).iter().for_each(|more| taken.insert(more));
        taken
    }
}
