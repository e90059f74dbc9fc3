//! The closed list of decisions of a rendezvous: a journal keeps them and the master acts on them.

use flexor_model::Round;
use serde::{Deserialize, Serialize};

use super::{MemberId, Processes};
use crate::Cause;

/// A decision. Replaying all facts in order on an empty rendezvous gives the same rendezvous again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "camelCase")]
pub enum Fact {
    /// A member waits for the next round.
    Joined {
        id: MemberId,
        /// The member is new to the run: the world grows or gets a replacement, the program did not fail.
        newcomer: bool,
        #[serde(default)]
        processes: Processes,
    },
    /// A member waits outside the world until the world has room.
    Standby {
        id: MemberId,
        /// Why the world has no room.
        cause: Cause,
        #[serde(default)]
        processes: Processes,
    },
    /// A waiting member has other processes than it said before.
    ProcessesChanged { id: MemberId, processes: Processes },
    /// A member left the world or the queue and is expected to join again.
    Left { id: MemberId },
    /// The program of a member has finished.
    Finished { id: MemberId },
    /// A member is lost.
    Dropped { id: MemberId, cause: Cause },
    /// A round is complete.
    Completed {
        round: Round,
        /// The members by rank, from 0.
        members: Vec<MemberId>,
        /// Why the round is complete.
        cause: Cause,
        /// Why a new round was needed, where there was a world before.
        trigger: Option<Cause>,
        program_failures: u32,
    },
    /// The run takes no nodes any more.
    Closed { cause: Cause },
    /// The run takes nodes again. Its count of program failures is reset.
    Reopened { cause: Cause },
    /// The target number of nodes has changed, or is not known any more.
    Expected { nodes: Option<u32> },
}
