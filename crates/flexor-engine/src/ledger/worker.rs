//! A worker that leases batches, and its pace.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::grant::GrantId;

/// One incarnation of a worker, which is a process. A restart has a higher incarnation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId {
    /// Unique in the job.
    pub name: Arc<str>,
    /// A higher one ends the lower ones.
    pub incarnation: u64,
}

impl WorkerId {
    pub fn new(name: impl Into<Arc<str>>, incarnation: u64) -> Self {
        Self { name: name.into(), incarnation }
    }

    /// The node whose launcher started the worker. Launchers name their workers `NODE/LOCAL_RANK`.
    pub fn node(&self) -> Option<&str> {
        self.name.rsplit_once('/').map(|(node, _)| node)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            0 => f.write_str(&self.name),
            incarnation => write!(f, "{} (incarnation {incarnation})", self.name),
        }
    }
}

/// How many completed grants of a worker are remembered, to recognise repeated acknowledgements: as many as a session
/// has in flight.
const REMEMBERED: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Worker {
    pub(super) incarnation: u64,
    pub(super) grants: BTreeSet<GrantId>,
    /// The latest grants whose batches were all acknowledged.
    #[serde(default)]
    pub(super) done: VecDeque<GrantId>,
    #[serde(skip)]
    pub(super) pace: Pace,
    /// The node has been alive since the worker was admitted, so the worker is lost with it.
    #[serde(skip)]
    pub(super) of_node: bool,
    /// The session ended; the worker must reconnect before this.
    #[serde(skip)]
    pub(super) away_until: Option<Duration>,
    /// The last request.
    #[serde(skip)]
    pub(super) heard_at: Duration,
}

impl Worker {
    pub(super) fn new(incarnation: u64) -> Self {
        Self {
            incarnation,
            grants: BTreeSet::new(),
            done: VecDeque::new(),
            pace: Pace::default(),
            of_node: false,
            away_until: None,
            heard_at: Duration::ZERO,
        }
    }

    pub(super) fn remember_done(&mut self, grant: GrantId) {
        self.done.push_back(grant);
        if self.done.len() > REMEMBERED {
            self.done.pop_front();
        }
    }
}

/// A worker's speed. It is not journaled, because it is soon measured again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pace {
    /// Estimated batch time; slow batches weigh more than fast ones.
    pub(super) batch_time: Option<Duration>,
    /// When the worker began the batches that it acknowledges next.
    pub(super) busy_since: Option<Duration>,
    /// Batches of the last grant, and its time.
    pub(super) last_grant: Option<(u64, Duration)>,
    /// The last acknowledgement, or the first lease after being idle.
    pub(super) progress_at: Duration,
}

impl Pace {
    pub(super) fn record_lease(&mut self, now: Duration) {
        if self.busy_since.is_none() {
            (self.busy_since, self.progress_at) = (Some(now), now);
        }
    }

    /// The lease of `batches` expired after `waited`: a batch takes longer than estimated.
    pub(super) fn record_expiry(&mut self, waited: Duration, batches: u64) {
        let at_least = waited / u32::try_from(batches.max(1)).unwrap_or(u32::MAX);
        self.batch_time = Some(self.batch_time.map_or(at_least, |known| known.max(at_least)));
        self.busy_since = None;
    }

    /// Records an acknowledgement; `idle` when the worker holds no lease after it.
    pub(super) fn record_acknowledgement(&mut self, batches: u64, idle: bool, now: Duration) {
        if let Some(since) = self.busy_since {
            let sample = now.saturating_sub(since) / u32::try_from(batches.max(1)).unwrap_or(u32::MAX);
            let slower = self.batch_time.map_or(sample, |known| sample.max((known * 4 + sample) / 5));
            self.batch_time = Some(slower);
        }
        self.progress_at = now;
        self.busy_since = (!idle).then_some(now);
    }
}
