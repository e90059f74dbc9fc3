//! The value that an agent reads as the state of its run.
//!
//! The rendezvous holds the truth. Each agent gets the view that makes torchrun's own client act correctly at once:
//! - a member of the world: the complete round with all ranks, and a placeholder on the wait list while a restart is wanted;
//! - a member that waits for the next round: an incomplete round with itself as the only participant;
//! - a standby: a complete round of maximum size, and itself in the redundancy list;
//! - any other agent: an incomplete round to join, and a placeholder on the wait list, so that an agent that still runs
//!   workers of an old world stops them.
//!
//! An agent sees no heartbeat but its own, which the store stamps in the time of the agent's clock. So clocks need not
//! agree, and no agent declares itself or a peer dead. The master alone decides whether a node is alive.

use std::sync::Arc;

use bytes::Bytes;
use flexor_engine::rendezvous::{MemberId, MemberState, Rendezvous, World};

use crate::state::{self, NodeDesc, RendezvousState, SharedHead, Stamp};

/// How far away the deadline of an incomplete round is shown, in microseconds. Agents complete a round themselves when its
/// deadline has passed. It never passes, because the rendezvous completes rounds.
const DISTANT: i64 = 24 * 3600 * 1_000_000;

/// The encoded views of one world, made once for all its members.
#[derive(Debug, Clone)]
pub(super) struct WorldView {
    head: SharedHead,
    closed_head: SharedHead,
    /// For standbys: the same world, filled up to its maximum size.
    full_head: SharedHead,
}

impl WorldView {
    pub(super) fn new(world: &World, max: u32) -> Self {
        let participants: Vec<(NodeDesc, u64)> = world.members.iter().map(desc_of).zip(0..).collect();
        let round = world.round.0;
        let head = SharedHead::new(round, true, None, false, &participants);
        let closed_head = SharedHead::new(round, true, None, true, &participants);
        let filling = (participants.len() as u64..u64::from(max)).map(|rank| (placeholder(rank), rank));
        let full: Vec<_> = participants.iter().cloned().chain(filling).collect();
        let full_head = SharedHead::new(round, true, None, false, &full);
        Self { head, closed_head, full_head }
    }
}

/// The agent that reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct StateReader<'a> {
    /// None before the agent has written.
    pub(super) node: Option<&'a NodeDesc>,
    /// The time on the agent's own clock.
    pub(super) clock: Stamp,
    /// The agent closed the run without being a member, so it alone sees a closed run.
    pub(super) sees_closed: bool,
}

/// The value for a reader.
pub(super) fn state_for(run: &Rendezvous, world: Option<&WorldView>, reader: StateReader<'_>) -> StateValue {
    let (head, tail) = value(run, world, reader);
    let state = reader.node.map(member_of).and_then(|id| run.state_of(&id));
    let own = reader.node.cloned();
    let own_state = RendezvousState {
        closed: run.closed().is_some() || reader.sees_closed,
        participants: own
            .iter()
            .filter(|_| state == Some(MemberState::InWorld))
            .map(|node| (node.clone(), 0))
            .collect(),
        redundancy_list: own.iter().filter(|_| state == Some(MemberState::Standby)).cloned().collect(),
        last_heartbeats: own.into_iter().map(|node| (node, reader.clock)).collect(),
        ..RendezvousState::default()
    };
    StateValue { head, tail, own_state }
}

/// An encoded state as it was sent to a reader. When a write expects this value, the store need not decode it: the long
/// head is the same for all readers, and the part about the reader is known.
#[derive(Debug, Clone)]
pub(super) struct StateValue {
    head: Bytes,
    tail: Bytes,
    /// The part of the state that is about the reader.
    own_state: RendezvousState,
}

impl StateValue {
    /// The pieces of a reply.
    pub(super) fn reply(&self) -> [Bytes; 3] {
        let length = (self.head.len() + self.tail.len()) as u64;
        [Bytes::copy_from_slice(&length.to_le_bytes()), self.head.clone(), self.tail.clone()]
    }

    /// Whether the value is worth remembering: short values are decoded as fast as they are compared.
    pub(super) fn is_long(&self) -> bool {
        !self.head.is_empty()
    }

    /// The part about the reader, if `value` is this one.
    pub(super) fn own_state_in(&self, value: &[u8]) -> Option<&RendezvousState> {
        let rest = value.strip_prefix(&self.head[..])?;
        (rest == self.tail).then_some(&self.own_state)
    }
}

fn value(run: &Rendezvous, view: Option<&WorldView>, reader: StateReader<'_>) -> (Bytes, Bytes) {
    let id = reader.node.map(member_of);
    let state = id.as_ref().and_then(|id| run.state_of(id));
    let own: Vec<(NodeDesc, Stamp)> = reader.node.map(|node| (node.clone(), reader.clock)).into_iter().collect();
    let own_node: Vec<NodeDesc> = reader.node.cloned().into_iter().collect();
    let closed = run.closed().is_some() || reader.sees_closed;
    let waiting_placeholder = [placeholder(0)];
    match (state, view) {
        (Some(MemberState::InWorld), Some(view)) if closed => view.closed_head.with_tail(&[], &[], &own),
        (Some(MemberState::InWorld), Some(view)) => {
            let waiting: &[NodeDesc] = if run.restart_cause().is_some() { &waiting_placeholder } else { &[] };
            view.head.with_tail(waiting, &[], &own)
        }
        (Some(MemberState::Standby), Some(view)) if !closed => view.full_head.with_tail(&[], &own_node, &own),
        (Some(MemberState::Joined), _) if !closed => incomplete(run, reader.clock, own_node, own, false),
        (Some(MemberState::Standby), _) => {
            let redundancy_list = own_node.into_iter().collect();
            let round = run.next_round().0;
            let state =
                RendezvousState { round, closed, redundancy_list, last_heartbeats: own, ..RendezvousState::default() };
            (Bytes::new(), state::encode(&state).into())
        }
        (Some(MemberState::InWorld | MemberState::Joined | MemberState::Away) | None, _) => {
            incomplete(run, reader.clock, Vec::new(), Vec::new(), closed)
        }
    }
}

/// A round that can be joined, with these participants.
fn incomplete(
    run: &Rendezvous,
    clock: Stamp,
    participants: Vec<NodeDesc>,
    last_heartbeats: Vec<(NodeDesc, Stamp)>,
    closed: bool,
) -> (Bytes, Bytes) {
    let is_outside = participants.is_empty();
    let state = RendezvousState {
        round: run.next_round().0,
        complete: false,
        deadline: clock.later_by(DISTANT),
        closed,
        participants: participants.into_iter().map(|node| (node, 0)).collect(),
        wait_list: if is_outside { [placeholder(0)].into() } else { Default::default() },
        redundancy_list: Default::default(),
        last_heartbeats,
    };
    (Bytes::new(), state::encode(&state).into())
}

/// The member id of a torchrun node.
pub(super) fn member_of(node: &NodeDesc) -> MemberId {
    MemberId::new(node.to_string(), 0)
}

/// The torchrun node of a member, the inverse of [`member_of`]. A member of the native API is shown by its name.
pub(super) fn desc_of(member: &MemberId) -> NodeDesc {
    let mut parts = member.name.rsplitn(3, '_');
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
    let numbers = (number(), number());
    match (numbers, parts.next()) {
        ((Some(local_id), Some(pid)), Some(addr)) => NodeDesc { addr: addr.into(), pid, local_id },
        _ => NodeDesc { addr: Arc::clone(&member.name), pid: 0, local_id: member.incarnation },
    }
}

/// A node that does not exist, for lists that must not be empty.
fn placeholder(number: u64) -> NodeDesc {
    NodeDesc { addr: "flexor".into(), pid: 0, local_id: number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_members_convert_into_each_other() {
        let node = NodeDesc { addr: "pod_a.jobs".into(), pid: 77, local_id: 3 };
        assert_eq!(desc_of(&member_of(&node)), node);
        assert_eq!(desc_of(&MemberId::new("plain", 4)).to_string(), "plain_0_4");
    }
}
