//! The closed list of events that a rendezvous takes.

use std::time::Duration;

use super::{MemberId, Processes};
use crate::Cause;

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A node asks to be in the next world. A node that joins again has left the last world.
    Join { id: MemberId, processes: Processes },
    /// A node left the world or the queue. It is expected to join again.
    Leave { id: MemberId },
    /// A node is alive.
    Heartbeat { id: MemberId },
    /// The connection to a node broke. The node itself may be alive: it has `grace` to send a heartbeat.
    ConnectionLost { id: MemberId, grace: Duration },
    /// A node is lost.
    Lost {
        id: MemberId,
        /// How the loss was observed.
        cause: Cause,
    },
    /// The target number of nodes, if the controller knows it.
    Expect { nodes: Option<u32> },
    /// How many pods exist whose nodes have not joined.
    Announced { missing: u32 },
    /// The program of a node has finished. The run closes when the programs of all members of the world have.
    Finish { id: MemberId },
    /// The processes of a node survive world changes.
    OptIn { id: MemberId },
    /// A node closed the run.
    Close { by: MemberId },
    /// The controller retries a closed run.
    Reopen,
    /// Time passed.
    Tick,
}
