//! The intent of an agent, derived from the two states of a compare-and-set: the state it read and the state it writes.
//!
//! An agent decides only about itself. It also writes which peers are dead and when a round is complete, but the
//! rendezvous decides that. So an intent is the change of the agent's own membership, and whether it closes the run. Two
//! agents that write at the same time never contradict each other.

use crate::state::{NodeDesc, RendezvousState, Stamp};

/// The intent of one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intent {
    /// The writer, if it can be derived.
    pub(super) node: Option<NodeDesc>,
    pub(super) membership: MembershipIntent,
    /// The round that the writer refers to.
    pub(super) round: u64,
    /// The writer closes the run.
    pub(super) close: bool,
    /// The time on the writer's own clock, if it wrote a heartbeat.
    pub(super) clock: Option<Stamp>,
}

/// The change that the writer asks for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MembershipIntent {
    Join,
    Leave,
    /// No change: the write is a heartbeat.
    Stay,
}

impl Intent {
    /// Derives the intent of a write. `known` is the node that the connection has spoken for before.
    pub(super) fn read(known: Option<&NodeDesc>, expected: &RendezvousState, desired: &RendezvousState) -> Self {
        let node = known.cloned().or_else(|| only_newcomer(expected, desired));
        let membership = match &node {
            Some(node) => match (is_listed(expected, node), is_listed(desired, node)) {
                (false, true) => MembershipIntent::Join,
                (true, false) => MembershipIntent::Leave,
                (true, true) if !participates(expected, node) && participates(desired, node) => MembershipIntent::Join,
                (true, true) | (false, false) => MembershipIntent::Stay,
            },
            None => MembershipIntent::Stay,
        };
        let stamp_in = |state: &RendezvousState| {
            state.last_heartbeats.iter().find(|(other, _)| Some(other) == node.as_ref()).map(|(_, stamp)| *stamp)
        };
        let clock = stamp_in(desired).filter(|stamp| Some(*stamp) != stamp_in(expected));
        Self { node, membership, round: desired.round, close: desired.closed && !expected.closed, clock }
    }
}

/// The one node that the writer added; none if it added no node or several.
fn only_newcomer(expected: &RendezvousState, desired: &RendezvousState) -> Option<NodeDesc> {
    let mut newcomers = all_nodes(desired).filter(|node| !mentions(expected, node));
    let first = newcomers.next()?;
    newcomers.all(|other| other == first).then(|| first.clone())
}

fn all_nodes(state: &RendezvousState) -> impl Iterator<Item = &NodeDesc> {
    let participants = state.participants.iter().map(|(node, _)| node);
    let heartbeats = state.last_heartbeats.iter().map(|(node, _)| node);
    participants.chain(&state.wait_list).chain(&state.redundancy_list).chain(heartbeats)
}

fn mentions(state: &RendezvousState, node: &NodeDesc) -> bool {
    all_nodes(state).any(|other| other == node)
}

fn participates(state: &RendezvousState, node: &NodeDesc) -> bool {
    state.participants.iter().any(|(other, _)| other == node)
}

fn is_listed(state: &RendezvousState, node: &NodeDesc) -> bool {
    participates(state, node) || state.wait_list.contains(node) || state.redundancy_list.contains(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(addr: &str) -> NodeDesc {
        NodeDesc { addr: addr.into(), pid: 1, local_id: 0 }
    }

    fn stamp(micros: i64) -> Stamp {
        Stamp::from_unix_micros(micros).expect("in range")
    }

    fn with_participants(names: &[&str]) -> RendezvousState {
        let participants = names.iter().map(|name| (node(name), 0)).collect();
        let last_heartbeats = names.iter().map(|name| (node(name), stamp(5))).collect();
        RendezvousState { participants, last_heartbeats, ..RendezvousState::default() }
    }

    #[test]
    fn the_node_that_a_first_write_adds_is_its_writer_and_joins() {
        let intent = Intent::read(None, &with_participants(&["a"]), &with_participants(&["a", "b"]));
        assert_eq!((intent.node, intent.membership), (Some(node("b")), MembershipIntent::Join));
        assert_eq!(intent.clock, Some(stamp(5)));
    }

    #[test]
    fn removing_dead_peers_is_no_intent_of_the_writer() {
        let known = node("a");
        let intent = Intent::read(Some(&known), &with_participants(&["a", "b"]), &with_participants(&["a"]));
        assert_eq!(intent.membership, MembershipIntent::Stay);
    }

    #[test]
    fn leaving_waiting_and_closing_are_distinguished() {
        let a = node("a");
        let (inside, outside) = (with_participants(&["a"]), RendezvousState::default());
        assert_eq!(Intent::read(Some(&a), &inside, &outside).membership, MembershipIntent::Leave);

        let mut waiting = RendezvousState::default();
        waiting.wait_list.insert(a.clone());
        assert_eq!(Intent::read(Some(&a), &outside, &waiting).membership, MembershipIntent::Join);
        assert_eq!(Intent::read(Some(&a), &waiting, &inside).membership, MembershipIntent::Join);

        let closed = RendezvousState { closed: true, ..inside.clone() };
        let intent = Intent::read(Some(&a), &inside, &closed);
        assert_eq!((intent.membership, intent.close), (MembershipIntent::Stay, true));
    }

    #[test]
    fn a_heartbeat_carries_the_writers_clock() {
        let mut later = with_participants(&["a"]);
        later.last_heartbeats[0].1 = stamp(9);
        let intent = Intent::read(Some(&node("a")), &with_participants(&["a"]), &later);
        assert_eq!((intent.membership, intent.clock), (MembershipIntent::Stay, Some(stamp(9))));
    }
}
