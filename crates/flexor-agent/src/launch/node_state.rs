//! The state of a node in its job, as the node understands the master's messages.

use flexor_wire::master::v1 as wire;
use wire::world::MemberState;

use super::limits::Limits;

/// The state of a node in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeState {
    /// The node is in no world; it has joined the rendezvous, or may.
    Waiting {
        /// The node is outside, and the other nodes are too few for a world.
        needed: bool,
    },
    InWorld(World),
    /// The node is in a world that has to hold a rendezvous again.
    Restart {
        round: u64,
        cause: String,
    },
    /// The run is closed for this cause: no node can join any more.
    Closed(String),
    /// The master does not admit the node.
    Rejected(Rejection),
}

/// Why a master does not admit a node. Each variant carries the message for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rejection {
    /// Another process has this node's name and a later incarnation.
    Fenced(String),
    /// The master serves another job than the requested one.
    OtherJob(String),
    /// The master requires a token that the node does not have.
    Token(String),
}

/// A world, as one of its nodes sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct World {
    pub(super) round: u64,
    /// The name of the run at the master.
    pub(super) run: String,
    /// Rank of this node among the nodes.
    pub(super) rank: u32,
    /// Number of nodes.
    pub(super) size: u32,
    /// Global rank of this node's first process.
    pub(super) first_process: u32,
    /// Number of processes of all nodes.
    pub(super) processes: u32,
    /// How often the program has failed, as the master counts it.
    pub(super) program_failures: u32,
    pub(super) limits: Limits,
    /// Global ranks of the processes that ran before this world.
    pub(super) survivors: Vec<u32>,
}

impl NodeState {
    pub(super) fn of(world: &wire::World) -> Self {
        if !world.closed.is_empty() {
            return NodeState::Closed(world.closed.clone());
        }
        match world.state() {
            MemberState::InWorld if !world.restart.is_empty() => {
                NodeState::Restart { round: world.round, cause: world.restart.clone() }
            }
            MemberState::InWorld => NodeState::InWorld(World {
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
            MemberState::Unspecified | MemberState::Outside => NodeState::Waiting { needed: world.needs_more_nodes },
            MemberState::Joined | MemberState::Standby | MemberState::Away => NodeState::Waiting { needed: false },
        }
    }
}
