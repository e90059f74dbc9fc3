//! The outbox: what a node has to tell its master.
//!
//! It holds states, not messages, so it outlives a session and a master. The launcher writes and never waits;
//! [`super::session`] delivers. Reports go before the desired membership: a node that joins again has first reported how
//! its last workers ended.

use std::collections::VecDeque;

use flexor_wire::master::v1::request::Op;

/// The detail that a node gives when it leaves its world for a while.
pub(super) const RESTARTS_WORKERS: &str = "its workers are being restarted";

/// The detail that a node gives when it leaves for good.
pub(super) const LAUNCHER_ENDED: &str = "its launcher has ended";

/// The membership that a node wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DesiredMembership {
    /// Whatever it has. If the master ends that, the launcher decides anew.
    Current,
    /// In a world of a later round than `after`, the last round that the node was in.
    NextWorld {
        after: Option<u64>,
        /// The node joins with processes that it already has.
        survives: bool,
        /// The node stood aside and others went on without it: it leaves its old world before it joins.
        stood_aside: bool,
    },
    /// In no world, with this detail.
    Absent(&'static str),
    /// Without work: its program has succeeded.
    Finished {
        /// The node stood aside and others went on without it: it leaves its old world.
        stood_aside: bool,
    },
}

/// What there is to tell the master.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) desired: DesiredMembership,
    /// Whether the node's processes survive changes of the world that it is in.
    pub(super) survives_changes: bool,
    /// Events of the node that the master has not recorded, the oldest first.
    pub(super) reports: VecDeque<Op>,
    /// Whether a master listens.
    pub(super) connected: bool,
    /// Whether the master has received everything.
    pub(super) delivered: bool,
}

impl Outbox {
    pub(super) fn new() -> Self {
        let (desired, reports) = (DesiredMembership::Current, VecDeque::new());
        Self { desired, survives_changes: false, reports, connected: false, delivered: true }
    }

    /// Returns whether that is a change.
    pub(super) fn set_desired(&mut self, desired: DesiredMembership) -> bool {
        let is_new = std::mem::replace(&mut self.desired, desired) != desired;
        self.delivered &= !is_new;
        is_new
    }

    /// A node that waits for a world leaves the queue; a node in a world stays until that has ended. Returns whether that
    /// is a change.
    pub(super) fn stop_joining(&mut self) -> bool {
        match self.desired {
            DesiredMembership::NextWorld { .. } => self.set_desired(DesiredMembership::Absent(LAUNCHER_ENDED)),
            DesiredMembership::Current | DesiredMembership::Absent(_) | DesiredMembership::Finished { .. } => false,
        }
    }

    pub(super) fn report(&mut self, op: Op) {
        self.reports.push_back(op);
        self.delivered = false;
    }
}
