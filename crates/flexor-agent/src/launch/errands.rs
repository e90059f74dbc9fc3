//! What a node has to say to its master: states, not messages, so that they outlive a session and a master.
//!
//! The launcher writes them down and never waits; [`super::session`] delivers them. What happened comes before what is
//! wanted now: whoever joins again has told how its last workers ended.

use std::collections::VecDeque;

use flexor_wire::master::v1::request::Op;

/// Why a node stands aside.
pub(super) const ASIDE: &str = "its workers are started again";

/// Why a node leaves.
pub(super) const ENDS: &str = "its launcher has ended";

/// What a node wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What it has. If that is taken from it, its launcher says what it wants then.
    Nothing,
    /// To be in a world after this one, the last it was in.
    World {
        after: Option<u64>,
        /// With processes that it has already.
        survives: bool,
        /// After it has left that one: it stood aside, and others went on without it.
        apart: bool,
    },
    /// To be in none, for this reason.
    Absence(&'static str),
    /// To be out of work: its program has ended well.
    Rest {
        /// After it has left its world: it stood aside, and others went on without it.
        apart: bool,
    },
}

/// What there is to say.
#[derive(Debug)]
pub(super) struct Errands {
    pub(super) wanted: Wanted,
    /// Whether the node's processes outlive changes of the world that it is in.
    pub(super) outlives: bool,
    /// What happened on the node and the master has not taken down, the oldest first.
    pub(super) reports: VecDeque<Op>,
    /// Whether there is a master that listens.
    pub(super) linked: bool,
    /// Whether it has heard all of this.
    pub(super) settled: bool,
}

impl Errands {
    /// Nothing so far.
    pub(super) fn new() -> Self {
        Self { wanted: Wanted::Nothing, outlives: false, reports: VecDeque::new(), linked: false, settled: true }
    }

    /// Something else is wanted; whether it is something else.
    pub(super) fn want(&mut self, wanted: Wanted) -> bool {
        let is_new = std::mem::replace(&mut self.wanted, wanted) != wanted;
        self.settled &= !is_new;
        is_new
    }

    /// Nothing is begun any more: who waits for a world does not, and who is in one stays until it has ended. Whether
    /// that is something else.
    pub(super) fn want_no_more(&mut self) -> bool {
        match self.wanted {
            Wanted::World { .. } => self.want(Wanted::Absence(ENDS)),
            Wanted::Nothing | Wanted::Absence(_) | Wanted::Rest { .. } => false,
        }
    }

    /// Something has happened.
    pub(super) fn report(&mut self, op: Op) {
        self.reports.push_back(op);
        self.settled = false;
    }
}
