//! The messages of the nodes of a running job, in rotation: a heartbeat, a stored value, a read value, a query for the
//! world.

use flexor_wire::master::v1 as wire;
use wire::request::Op;

/// A message of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    Beat,
    Set,
    Get,
    Poll,
}

/// When a stored value is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acknowledged {
    /// As soon as it holds; it is written down soon after.
    AtOnce,
    /// When it would survive the end of the machine.
    WhenDurable,
}

const VALUE: &[u8] = b"10.0.0.1:29500";

impl Message {
    /// The message for this turn.
    pub(super) fn at(turn: usize) -> Message {
        [Message::Beat, Message::Set, Message::Get, Message::Poll][turn % 4]
    }

    /// The same for our master, from the node with this number.
    pub(super) fn native(self, node: usize, acknowledged: Acknowledged) -> Op {
        let key = format!("key-{node}");
        match self {
            Message::Beat => Op::Heartbeat(wire::Heartbeat {}),
            Message::Set => {
                let durable = acknowledged == Acknowledged::WhenDurable;
                Op::Set(wire::SetKey { key, value: VALUE.into(), durable })
            }
            Message::Get => Op::Get(wire::GetKey { key }),
            Message::Poll => Op::Poll(wire::Poll { from_round: None, wait_ms: 0, members: false }),
        }
    }
}
