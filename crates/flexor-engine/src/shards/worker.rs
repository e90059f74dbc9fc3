//! Who goes through batches, and how fast.

use std::collections::{BTreeSet, VecDeque};
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

    /// The node whose launcher started it: launchers call their workers `NODE/LOCAL_RANK`.
    pub fn node(&self) -> Option<&str> {
        self.name.rsplit_once('/').map(|(node, _)| node)
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

/// How many grants that a worker is done with are remembered, so that an acknowledgement that comes twice is known: as
/// many as a session has under way.
const REMEMBERED: usize = 64;

/// What is known of a worker that has or had something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Worker {
    pub(super) incarnation: u64,
    /// What it has.
    pub(super) grants: BTreeSet<GrantId>,
    /// All of their batches were acknowledged; the latest of them.
    #[serde(default)]
    pub(super) done: VecDeque<GrantId>,
    #[serde(skip)]
    pub(super) pace: Pace,
    /// Its node has been alive since it came, so that it is lost with it.
    #[serde(skip)]
    pub(super) of_node: bool,
    /// Its session broke; until when it has to come back.
    #[serde(skip)]
    pub(super) away_until: Option<Duration>,
    /// When it last asked for something.
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

    pub(super) fn has_done(&mut self, grant: GrantId) {
        self.done.push_back(grant);
        if self.done.len() > REMEMBERED {
            self.done.pop_front();
        }
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
    /// When it last acknowledged something, or began to have something.
    pub(super) progress_at: Duration,
}

impl Pace {
    /// It has leased something.
    pub(super) fn leased(&mut self, now: Duration) {
        if self.busy_since.is_none() {
            (self.busy_since, self.progress_at) = (Some(now), now);
        }
    }

    /// It has made no progress for so long with so many batches in one lease: its batches take longer than was known.
    pub(super) fn was_stuck(&mut self, waited: Duration, batches: u64) {
        let at_least = waited / u32::try_from(batches.max(1)).unwrap_or(u32::MAX);
        self.batch_time = Some(self.batch_time.map_or(at_least, |known| known.max(at_least)));
        self.busy_since = None;
    }

    /// It has acknowledged so many batches; `idle` when it has none left.
    pub(super) fn acknowledged(&mut self, batches: u64, idle: bool, now: Duration) {
        if let Some(since) = self.busy_since {
            let sample = now.saturating_sub(since) / u32::try_from(batches.max(1)).unwrap_or(u32::MAX);
            let slower = self.batch_time.map_or(sample, |known| sample.max((known * 4 + sample) / 5));
            self.batch_time = Some(slower);
        }
        self.progress_at = now;
        self.busy_since = (!idle).then_some(now);
    }
}
