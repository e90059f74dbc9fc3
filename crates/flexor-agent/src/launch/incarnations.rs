//! Incarnation numbers of a node's workers. Each is greater than all before it, so that the master recognises replaced
//! workers even if it never learnt of their end.

use std::time::{SystemTime, UNIX_EPOCH};

/// One incarnation of a node's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Incarnation {
    /// The workers find it as `FLEXOR_INCARNATION` and send it to the master.
    pub(super) number: u64,
    /// How many incarnations this launcher has started before.
    pub(super) attempt: u32,
}

/// The incarnations that a launcher hands out.
#[derive(Debug)]
pub(super) struct Incarnations {
    next: Incarnation,
}

impl Incarnations {
    /// Starts above the numbers of every earlier launcher of the same node: with the microseconds since 1970. No launcher
    /// starts workers more often than once in a microsecond.
    pub(super) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros());
        Self { next: Incarnation { number: u64::try_from(since).unwrap_or(u64::MAX / 2), attempt: 0 } }
    }

    pub(super) fn next(&mut self) -> Incarnation {
        let incarnation = self.next;
        self.next = Incarnation { number: incarnation.number + 1, attempt: incarnation.attempt + 1 };
        incarnation
    }

    /// Whether any incarnation was handed out.
    pub(super) fn has_any(&self) -> bool {
        self.next.attempt > 0
    }
}
