//! torchrun's rendezvous state: the one value that every agent of a job reads each second and writes with compare-and-set.
//!
//! Agents store it as base64 of a Python pickle. [`decode`] reads exactly that object graph and refuses every other pickle
//! by name, so nothing that a client writes is ever executed. [`encode`] writes a pickle that Python loads to an equal
//! object. [`SharedHead`] writes the same state for many readers that differ in a few entries. This module does not
//! interpret changes of the state.

mod assemble;
mod cursor;
mod error;
mod machine;
mod node;
mod objects;
mod opcode;
mod shared_head;
mod stamp;
mod value;
mod writer;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub use error::StateError;
pub use node::NodeDesc;
pub use shared_head::SharedHead;
pub use stamp::{Stamp, Zone};

use machine::Machine;
use writer::Writer;

/// The value that an agent stores under the key before there is a state.
pub const SENTINEL: &[u8] = b"Y2FuaW1hZGFt";

/// The longest value that [`decode`] reads, in bytes of base64; also the longest that torch's server takes.
pub const MAX_VALUE: usize = 8 << 20;

/// The most nodes of a state.
pub const MAX_NODES: usize = 65_536;

/// The longest text in a state, in bytes.
pub const MAX_TEXT: usize = 1024;

/// torchrun's `_RendezvousState`, attribute by attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RendezvousState {
    /// Counts the worlds that were formed; 0 for the first.
    pub round: u64,
    /// Whether the participants of the round are final.
    pub complete: bool,
    /// When an incomplete round that has enough nodes stops waiting for more.
    pub deadline: Option<Stamp>,
    /// Whether the run is over for all nodes.
    pub closed: bool,
    /// The nodes of the round with their ranks, in the order in which they joined; each node once.
    pub participants: Vec<(NodeDesc, u64)>,
    /// Nodes that wait for the next round.
    pub wait_list: BTreeSet<NodeDesc>,
    /// Standbys: nodes beyond the largest world. torch 2.2 does not write this list but keeps one that it reads.
    pub redundancy_list: BTreeSet<NodeDesc>,
    /// The last heartbeat of each node, in the order of their first heartbeats; each node once.
    pub last_heartbeats: Vec<(NodeDesc, Stamp)>,
}

/// Decodes a value that an agent wrote. Takes time and memory in proportion to its length.
///
/// [`SENTINEL`] is not a state and is refused like any other text. Compare with it first.
pub fn decode(base64_value: &[u8]) -> Result<RendezvousState, StateError> {
    if base64_value.len() > MAX_VALUE {
        return Err(StateError::TooLong { length: base64_value.len() });
    }
    Machine::run(&STANDARD.decode(base64_value)?)
}

/// Encodes a state as agents read it: base64 of a protocol 4 pickle.
///
/// It does not check the state. [`decode`] reads it back if no node occurs twice in a list and the limits ([`MAX_VALUE`],
/// [`MAX_NODES`], [`MAX_TEXT`]) are kept.
pub fn encode(state: &RendezvousState) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.open(state.round, state.complete, state.deadline, state.closed, &state.participants);
    writer.close(&state.wait_list, &state.redundancy_list, &state.last_heartbeats);
    STANDARD.encode(writer.pickle()).into_bytes()
}

#[cfg(test)]
mod tests;
