//! Batches that are promised to one worker.
//!
//! A grant stands in the journal before anything of it is leased, and a lease is a piece of a grant, so that leases and
//! acknowledgements need no write of their own: after a restart of the master it is known who may have what.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ranges::{Batches, Ranges};
use super::worker::WorkerId;

/// The number of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GrantId(pub u64);

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a worker does about answers that were lost with the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Promise {
    /// It says again what it holds and what it has acknowledged: nothing need be durable but the grant.
    Replays,
    /// It says nothing again, as a program that uses `curl`: it is answered when its words are durable.
    Forgets,
}

/// A grant that is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) worker: WorkerId,
    pub(super) dataset: Arc<str>,
    pub(super) epoch: u32,
    pub(super) promise: Promise,
    pub(super) alone: bool,
    /// Not leased yet. Leases are not written down, so that nobody knows this of a ledger that was read back.
    pub(super) unleased: Ranges,
    /// Leased and not acknowledged; or, in doubt, perhaps leased and perhaps acknowledged.
    pub(super) leased: Ranges,
    pub(super) accounted: Ranges,
    /// The master was started again, and the worker has not said yet what it holds.
    #[serde(skip)]
    pub(super) in_doubt: bool,
    /// When it was last leased from or acknowledged.
    #[serde(skip)]
    pub(super) progress_at: Duration,
}

impl Grant {
    /// What is neither acknowledged nor returned.
    pub(super) fn outstanding(&self) -> u64 {
        self.unleased.count() + self.leased.count()
    }

    /// Takes batches out that are outstanding, leased or not.
    pub(super) fn withdraw(&mut self, batches: Batches) -> Ranges {
        let mut taken = self.leased.remove(batches);
        self.unleased.remove(batches).iter().for_each(|more| taken.insert(more));
        taken
    }
}
