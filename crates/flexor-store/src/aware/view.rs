//! What an agent is shown when it reads the state of its run.
//!
//! The truth is the machine's; each agent gets the view of it that makes the stock client do the right thing at once:
//! - in the world: the complete round with everybody's rank, and somebody on the wait list while all should meet again;
//! - waiting for the next round: an incomplete round with nobody in it but itself;
//! - a spare: a complete round with no place left, and itself among the redundant;
//! - anybody else: an incomplete round to join, and somebody on the wait list, so that an agent which still runs workers
//!   of a world it was taken out of stops them.
//!
//! An agent sees no heartbeat but its own, stamped by us in its own clock's time: so clocks need not agree, and no agent
//! ever holds itself or another for dead. Whether a node is alive is decided by the server alone.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use flexor_engine::rendezvous::{MemberId, Place, Rendezvous, World};

use crate::state::{self, NodeDesc, RendezvousState, SharedHead, Stamp};

/// How far off the deadline of an incomplete round is shown. Agents end a round themselves when it has passed; it never
/// does, the machine ends rounds.
const DISTANT: i64 = 24 * 3600 * 1_000_000;

/// The views of one world, made once for everybody in it.
#[derive(Debug, Clone)]
pub(super) struct WorldView {
    pub(super) ranks: HashMap<MemberId, u32>,
    head: SharedHead,
    closed_head: SharedHead,
    /// For spares: the same world, filled up to the greatest size.
    full_head: SharedHead,
}

impl WorldView {
    pub(super) fn new(world: &World, max: u32) -> Self {
        let participants: Vec<(NodeDesc, u64)> = world.members.iter().map(desc_of).zip(0..).collect();
        let ranks = world.members.iter().cloned().zip(0..).collect();
        let round = world.round.0;
        let head = SharedHead::new(round, true, None, false, &participants);
        let closed_head = SharedHead::new(round, true, None, true, &participants);
        let filling = (participants.len() as u64..u64::from(max)).map(|rank| (nobody(rank), rank));
        let full: Vec<_> = participants.iter().cloned().chain(filling).collect();
        let full_head = SharedHead::new(round, true, None, false, &full);
        Self { ranks, head, closed_head, full_head }
    }
}

/// Who looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    /// The node, once it is known.
    pub(super) node: Option<&'a NodeDesc>,
    /// The time on its own clock.
    pub(super) clock: Stamp,
    /// It closed the run for itself although it had no say in it.
    pub(super) sees_closed: bool,
}

/// The value that the reader is shown.
pub(super) fn shown(run: &Rendezvous, world: Option<&WorldView>, reader: Reader<'_>) -> Shown {
    let (head, tail) = value(run, world, reader);
    let place = reader.node.map(member_of).and_then(|id| run.place_of(&id));
    let own = reader.node.cloned();
    let own_state = RendezvousState {
        closed: run.closed().is_some() || reader.sees_closed,
        participants: own.iter().filter(|_| place == Some(Place::World)).map(|node| (node.clone(), 0)).collect(),
        redundancy_list: own.iter().filter(|_| place == Some(Place::Spare)).cloned().collect(),
        last_heartbeats: own.into_iter().map(|node| (node, reader.clock)).collect(),
        ..RendezvousState::default()
    };
    Shown { head, tail, own_state }
}

/// A value as a reader was shown it. When it comes back as what a write expects, it need not be read: the long piece of
/// it is the same for everybody, and what it says about the reader is known.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    head: Bytes,
    tail: Bytes,
    /// As much of the state as is about the reader.
    own_state: RendezvousState,
}

impl Shown {
    /// The pieces of a reply.
    pub(super) fn reply(&self) -> [Bytes; 3] {
        let length = (self.head.len() + self.tail.len()) as u64;
        [Bytes::copy_from_slice(&length.to_le_bytes()), self.head.clone(), self.tail.clone()]
    }

    /// Whether it is worth being remembered: short values are read as fast as they are compared.
    pub(super) fn is_long(&self) -> bool {
        !self.head.is_empty()
    }

    /// What a value says about the reader, if it is this one.
    pub(super) fn own_state_of(&self, value: &[u8]) -> Option<&RendezvousState> {
        let rest = value.strip_prefix(&self.head[..])?;
        (rest == self.tail).then_some(&self.own_state)
    }
}

fn value(run: &Rendezvous, view: Option<&WorldView>, reader: Reader<'_>) -> (Bytes, Bytes) {
    let id = reader.node.map(member_of);
    let place = id.as_ref().and_then(|id| run.place_of(id));
    let own: Vec<(NodeDesc, Stamp)> = reader.node.map(|node| (node.clone(), reader.clock)).into_iter().collect();
    let own_node: Vec<NodeDesc> = reader.node.cloned().into_iter().collect();
    let closed = run.closed().is_some() || reader.sees_closed;
    let somebody = [nobody(0)];
    match (place, view) {
        (Some(Place::World), Some(view)) if closed => view.closed_head.with_tail(&[], &[], &own),
        (Some(Place::World), Some(view)) => {
            let waiting: &[NodeDesc] = if run.restart_wanted().is_some() { &somebody } else { &[] };
            view.head.with_tail(waiting, &[], &own)
        }
        (Some(Place::Spare), Some(view)) if !closed => view.full_head.with_tail(&[], &own_node, &own),
        (Some(Place::Joined), _) if !closed => incomplete(run, reader.clock, own_node, own, false),
        (Some(Place::Spare), _) => {
            let redundancy_list = own_node.into_iter().collect();
            let round = run.next_round().0;
            let state =
                RendezvousState { round, closed, redundancy_list, last_heartbeats: own, ..RendezvousState::default() };
            (Bytes::new(), state::encode(&state).into())
        }
        (Some(Place::World | Place::Joined | Place::Away) | None, _) => {
            incomplete(run, reader.clock, Vec::new(), Vec::new(), closed)
        }
    }
}

/// A round that can be joined, with those in it that are named.
fn incomplete(
    run: &Rendezvous,
    clock: Stamp,
    participants: Vec<NodeDesc>,
    last_heartbeats: Vec<(NodeDesc, Stamp)>,
    closed: bool,
) -> (Bytes, Bytes) {
    let outside = participants.is_empty();
    let state = RendezvousState {
        round: run.next_round().0,
        complete: false,
        deadline: clock.later_by(DISTANT),
        closed,
        participants: participants.into_iter().map(|node| (node, 0)).collect(),
        wait_list: if outside { [nobody(0)].into() } else { Default::default() },
        redundancy_list: Default::default(),
        last_heartbeats,
    };
    (Bytes::new(), state::encode(&state).into())
}

/// The member that a node is.
pub(super) fn member_of(node: &NodeDesc) -> MemberId {
    MemberId::new(node.to_string(), 0)
}

/// The node that a member is: the other way round. A member that did not come through torchrun is shown by its name.
pub(super) fn desc_of(member: &MemberId) -> NodeDesc {
    let mut parts = member.name.rsplitn(3, '_');
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
    let numbers = (number(), number());
    match (numbers, parts.next()) {
        ((Some(local_id), Some(pid)), Some(addr)) => NodeDesc { addr: addr.into(), pid, local_id },
        _ => NodeDesc { addr: Arc::clone(&member.name), pid: 0, local_id: member.incarnation },
    }
}

/// A node that is none: stands where somebody has to be seen.
fn nobody(number: u64) -> NodeDesc {
    NodeDesc { addr: "flexor".into(), pid: 0, local_id: number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_members_are_named_alike() {
        let node = NodeDesc { addr: "pod_a.jobs".into(), pid: 77, local_id: 3 };
        assert_eq!(desc_of(&member_of(&node)), node);
        assert_eq!(desc_of(&MemberId::new("plain", 4)).to_string(), "plain_0_4");
    }
}
