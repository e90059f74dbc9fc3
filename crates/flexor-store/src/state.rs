//! torchrun's rendezvous state: the one value that every agent of a job reads each second and writes with compare-and-set.
//!
//! The agents keep it in the store as base64 of a Python pickle. [`decode`] reads exactly that object graph and refuses
//! every other pickle by name, so nothing that a client writes is ever executed; [`encode`] writes a pickle that Python
//! loads to an equal object; [`SharedHead`] writes the same state for many readers who differ in a few entries.
//! What a change of the state means, and whether it is legal, is not decided here.

mod assemble;
mod cursor;
mod machine;
mod node;
mod objects;
mod opcode;
mod refused;
mod shared_head;
mod stamp;
mod value;
mod writer;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub use node::NodeDesc;
pub use refused::Refused;
pub use shared_head::SharedHead;
pub use stamp::{Stamp, Zone};

use machine::Machine;
use writer::Writer;

/// What an agent plants under the key before there is a state: "no state yet".
pub const SENTINEL: &[u8] = b"Y2FuaW1hZGFt";

/// The longest value that [`decode`] looks at, in bytes of base64; also the longest that stock servers take.
pub const MAX_VALUE: usize = 8 << 20;

/// The most nodes that a state may name.
pub const MAX_NODES: usize = 65_536;

/// The longest text, in bytes, that may stand in a state.
pub const MAX_TEXT: usize = 1024;

/// torchrun's `_RendezvousState`, attribute by attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RendezvousState {
    /// Counts the worlds that were formed; 0 for the first.
    pub round: u64,
    /// Whether the round's participants are settled.
    pub complete: bool,
    /// When an incomplete round that has enough nodes stops waiting for more.
    pub deadline: Option<Stamp>,
    /// Whether the job is over for everybody.
    pub closed: bool,
    /// The nodes of the round with their ranks, in the order in which they joined; no node twice.
    pub participants: Vec<(NodeDesc, u64)>,
    /// Nodes that wait for the next round.
    pub wait_list: BTreeSet<NodeDesc>,
    /// Nodes beyond the largest world: hot spares. torch 2.2 has no such list and keeps one that it is shown.
    pub redundancy_list: BTreeSet<NodeDesc>,
    /// When each node last said that it lives, in the order of their first heartbeats; no node twice.
    pub last_heartbeats: Vec<(NodeDesc, Stamp)>,
}

/// Reads a value as an agent wrote it. Takes time and memory in proportion to its length.
///
/// [`SENTINEL`] is not a state and is refused like any other text; compare with it first.
pub fn decode(base64_value: &[u8]) -> Result<RendezvousState, Refused> {
    if base64_value.len() > MAX_VALUE {
        return Err(Refused::TooLong { length: base64_value.len() });
    }
    Machine::run(&STANDARD.decode(base64_value)?)
}

/// The value that an agent can read: base64 of a protocol 4 pickle.
///
/// Writes what it is given: [`decode`] reads it back when no node stands twice in one place and the limits
/// ([`MAX_VALUE`], [`MAX_NODES`], [`MAX_TEXT`]) are kept.
pub fn encode(state: &RendezvousState) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.open(state.round, state.complete, state.deadline, state.closed, &state.participants);
    writer.close(&state.wait_list, &state.redundancy_list, &state.last_heartbeats);
    STANDARD.encode(writer.pickle()).into_bytes()
}

#[cfg(test)]
mod tests;
