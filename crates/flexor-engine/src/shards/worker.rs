//! Who goes through batches, and how fast.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::grant::GrantId;

/// One life of a worker, which is a process. Started again it has another incarnation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId {
    /// The name, unique in the job.
    pub name: Arc<str>,
    /// Which life; a higher one ends the lower ones.
    pub incarnation: u64,
}

impl WorkerId {
    /// A life of a worker.
    pub fn new(name: impl Into<Arc<str>>, incarnation: u64) -> Self {
        Self { name: name.into(), incarnation }
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            0 => f.write_str(&self.name),
            incarnation => write!(f, "{} (life {incarnation})", self.name),
        }
    }
}

/// What is known of a worker that has or had something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Worker {
    pub(super) incarnation: u64,
    /// What it has.
    pub(super) grants: BTreeSet<GrantId>,
    #[serde(skip)]
    pub(super) pace: Pace,
}

impl Worker {
    pub(super) fn new(incarnation: u64) -> Self {
        Self { incarnation, grants: BTreeSet::new(), pace: Pace::default() }
    }
}

/// How fast a worker is; forgotten with the process of the master, because it is soon known again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pace {
    /// What it takes for a batch, the slow ones counted more than the fast ones.
    pub(super) batch_time: Option<Duration>,
    /// Since when it has been working on what it acknowledges next.
    pub(super) busy_since: Option<Duration>,
    /// How many batches it was granted last, and when.
    pub(super) last_grant: Option<(u64, Duration)>,
}

impl Pace {
    /// It has leased something.
    pub(super) fn leased(&mut self, now: Duration) {
        self.busy_since.get_or_insert(now);
    }

    /// It has acknowledged so many batches; `idle` when it has none left.
    pub(super) fn acknowledged(&mut self, batches: u64, idle: bool, now: Duration) {
        if let Some(since) = self.busy_since {
            let sample = now.saturating_sub(since) / u32::try_from(batches.max(1)).unwrap_or(u32::MAX);
            let slower = self.batch_time.map_or(sample, |known| sample.max((known * 4 + sample) / 5));
            self.batch_time = Some(slower);
        }
        self.busy_since = (!idle).then_some(now);
    }
}
