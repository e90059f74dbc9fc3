//! Numbers for the lives of a node's workers: each is greater than all before it, so that who was replaced is known as
//! such, whatever was heard of its end.

use std::time::{SystemTime, UNIX_EPOCH};

/// One life of a node's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    /// What they tell the master, as `FLEXOR_INCARNATION`.
    pub(super) incarnation: u64,
    /// How many this launcher has started before.
    pub(super) attempt: u32,
}

/// The lives that a launcher gives out.
#[derive(Debug)]
pub(super) struct Lives {
    next: Life,
}

impl Lives {
    /// Begins above whatever an earlier launcher of the same node gave out: with the microseconds since 1970, and nobody
    /// starts workers that often.
    pub(super) fn begin() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros());
        Self { next: Life { incarnation: u64::try_from(since).unwrap_or(u64::MAX / 2), attempt: 0 } }
    }

    /// Another life.
    pub(super) fn next(&mut self) -> Life {
        let life = self.next;
        self.next = Life { incarnation: life.incarnation + 1, attempt: life.attempt + 1 };
        life
    }

    /// Whether any was given out.
    pub(super) fn any(&self) -> bool {
        self.next.attempt > 0
    }
}
