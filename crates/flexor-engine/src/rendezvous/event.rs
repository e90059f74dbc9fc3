//! Everything that a rendezvous is told.

use std::time::Duration;

use super::{MemberId, Processes};
use crate::Cause;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A node wants to be in the next world. Joining again means that it has left the last one.
    Join {
        /// Who.
        id: MemberId,
        /// With what.
        processes: Processes,
    },
    /// A node left its place. It is expected to join again.
    Leave {
        /// Who.
        id: MemberId,
    },
    /// A node gave a sign of life.
    Heard {
        /// Who.
        id: MemberId,
    },
    /// The way to a node broke, which need not mean the node; it has this long to be heard again.
    ConnectionLost {
        /// Who.
        id: MemberId,
        /// How long.
        grace: Duration,
    },
    /// A node is known to be lost.
    Gone {
        /// Who.
        id: MemberId,
        /// How that is known.
        cause: Cause,
    },
    /// How many nodes the world should have, if that is known.
    Expect {
        /// How many.
        nodes: Option<u32>,
    },
    /// How many nodes are known to be on their way and have not joined.
    Announced {
        /// How many.
        missing: u32,
    },
    /// The program of a node has done its work. The run is over when all of its world have.
    Finish {
        /// Who.
        id: MemberId,
    },
    /// The processes of a node outlive changes of the world.
    OptIn {
        /// Who.
        id: MemberId,
    },
    /// A node closed the run.
    Close {
        /// Who.
        by: MemberId,
    },
    /// The controller tries again.
    Reopen,
    /// Time passed.
    Tick,
}
