//! Where a node stands, as it understands what the master says.

use flexor_wire::master::v1 as wire;
use wire::world::MemberState as Said;

use super::limits::Limits;

/// Where a node stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Not in a world; it has joined, or may.
    Waiting {
        /// It is outside, and those who are not are too few for a world.
        needed: bool,
    },
    /// In a world.
    InWorld(World),
    /// In a world that is to meet again.
    Restart {
        /// Its round.
        round: u64,
        /// Why.
        because: String,
    },
    /// Nobody can join any more, for this reason.
    Closed(String),
    /// Nowhere, and the master will not have it.
    Barred(Bar),
}

/// Why a master will not have a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bar {
    /// Somebody else is this node.
    Fenced(String),
    /// It serves another job than the node was asked to take part in.
    OtherJob(String),
    /// It wants a token that the node does not have.
    Token(String),
}

/// A world, as its node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct World {
    pub(super) round: u64,
    /// The name of the run at the master.
    pub(super) run: String,
    /// Of this node among the nodes.
    pub(super) rank: u32,
    pub(super) size: u32,
    /// The rank of this node's first process among all.
    pub(super) first_process: u32,
    pub(super) processes: u32,
    /// How often the program has failed, as the master counts it.
    pub(super) program_failures: u32,
    /// What the job allows.
    pub(super) limits: Limits,
    /// The processes that ran before, by rank.
    pub(super) survivors: Vec<u32>,
}

impl Place {
    /// What the master said, in our words.
    pub(super) fn of(world: &wire::World) -> Self {
        if !world.closed.is_empty() {
            return Place::Closed(world.closed.clone());
        }
        match world.state() {
            Said::InWorld if !world.restart.is_empty() => {
                Place::Restart { round: world.round, because: world.restart.clone() }
            }
            Said::InWorld => Place::InWorld(World {
                round: world.round,
                run: world.run.clone(),
                rank: world.rank,
                size: world.size,
                first_process: world.first_process,
                processes: world.processes,
                program_failures: world.program_failures,
                limits: Limits::of(world),
                survivors: world.survivors.clone(),
            }),
            Said::Unspecified | Said::Outside => Place::Waiting { needed: world.needs_more_nodes },
            Said::Joined | Said::Standby | Said::Away => Place::Waiting { needed: false },
        }
    }
}
