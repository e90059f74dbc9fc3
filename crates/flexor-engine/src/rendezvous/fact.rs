//! Everything a rendezvous can decide: the closed list of what a journal keeps and an executor acts on.

use flexor_model::Round;
use serde::{Deserialize, Serialize};

use super::{MemberId, Processes};
use crate::Cause;

/// Something that was decided. Applying the facts in order to an empty rendezvous gives the same rendezvous again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "camelCase")]
pub enum Fact {
    /// A member waits for the next round.
    Joined {
        /// Who.
        id: MemberId,
        /// Whether it was not known before, so that the world grows or is replaced rather than restarted.
        newcomer: bool,
        /// What it brings.
        #[serde(default)]
        processes: Processes,
    },
    /// A member waits until there is a place.
    Spared {
        /// Who.
        id: MemberId,
        /// Why there is none.
        cause: Cause,
        /// What it brings.
        #[serde(default)]
        processes: Processes,
    },
    /// A member that waits brings something else than it said.
    Brings {
        /// Who.
        id: MemberId,
        /// What.
        processes: Processes,
    },
    /// A member left its place and is expected to join again.
    Left {
        /// Who.
        id: MemberId,
    },
    /// The program of a member has done its work.
    Finished {
        /// Who.
        id: MemberId,
    },
    /// A member counts as lost.
    Dropped {
        /// Who.
        id: MemberId,
        /// Why.
        cause: Cause,
    },
    /// A round is complete.
    Completed {
        /// Its number.
        round: Round,
        /// Everyone in it, by rank from 0.
        members: Vec<MemberId>,
        /// Why it is complete.
        cause: Cause,
        /// Why there was a round at all, where there was a world before.
        trigger: Option<Cause>,
        /// How many times the program has failed so far.
        program_failures: u32,
    },
    /// Nobody can join any more.
    Closed {
        /// Why.
        cause: Cause,
    },
    /// The run is open again, with no failures counted.
    Reopened {
        /// Why.
        cause: Cause,
    },
    /// How many nodes are to come is known, or not known any more.
    Expected {
        /// How many.
        nodes: Option<u32>,
    },
}
