//! What an agent wants, read off the two states of a compare-and-set: the one it knew and the one it would like.
//!
//! An agent changes only what concerns itself, apart from a verdict about others that is not its to give: who is dead,
//! and when a round is complete. So the difference in its own place, and whether it closes the run, is all there is to
//! an operation, and two agents that write at once never contradict each other.

use crate::state::{NodeDesc, RendezvousState, Stamp};

/// What one write asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intent {
    /// Who writes, where that can be told.
    pub(super) node: Option<NodeDesc>,
    pub(super) wish: Wish,
    /// The round that the writer has in mind.
    pub(super) round: u64,
    /// The run should take nobody any more.
    pub(super) close: bool,
    /// The writer's own clock at the time of writing, if it wrote a heartbeat.
    pub(super) clock: Option<Stamp>,
}

/// What the writer wants for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// To take part.
    Join,
    /// To take part no more.
    Leave,
    /// Nothing but to be heard.
    Nothing,
}

impl Intent {
    /// Reads a write. `known` is who the connection was seen to speak for before.
    pub(super) fn read(known: Option<&NodeDesc>, expected: &RendezvousState, desired: &RendezvousState) -> Self {
        let node = known.cloned().or_else(|| only_newcomer(expected, desired));
        let wish = match &node {
            Some(node) => match (has_place(expected, node), has_place(desired, node)) {
                (false, true) => Wish::Join,
                (true, false) => Wish::Leave,
                (true, true) if !participates(expected, node) && participates(desired, node) => Wish::Join,
                (true, true) | (false, false) => Wish::Nothing,
            },
            None => Wish::Nothing,
        };
        let stamp_in = |state: &RendezvousState| {
            state.last_heartbeats.iter().find(|(other, _)| Some(other) == node.as_ref()).map(|(_, stamp)| *stamp)
        };
        let clock = stamp_in(desired).filter(|stamp| Some(*stamp) != stamp_in(expected));
        Self { node, wish, round: desired.round, close: desired.closed && !expected.closed, clock }
    }
}

/// The one node that the writer added; nothing if it added none or several.
fn only_newcomer(expected: &RendezvousState, desired: &RendezvousState) -> Option<NodeDesc> {
    let mut newcomers = everyone(desired).filter(|node| !mentions(expected, node));
    let first = newcomers.next()?;
    newcomers.all(|other| other == first).then(|| first.clone())
}

fn everyone(state: &RendezvousState) -> impl Iterator<Item = &NodeDesc> {
    let participants = state.participants.iter().map(|(node, _)| node);
    let heartbeats = state.last_heartbeats.iter().map(|(node, _)| node);
    participants.chain(&state.wait_list).chain(&state.redundancy_list).chain(heartbeats)
}

fn mentions(state: &RendezvousState, node: &NodeDesc) -> bool {
    everyone(state).any(|other| other == node)
}

fn participates(state: &RendezvousState, node: &NodeDesc) -> bool {
    state.participants.iter().any(|(other, _)| other == node)
}

fn has_place(state: &RendezvousState, node: &NodeDesc) -> bool {
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
    fn who_appears_in_a_first_write_is_its_writer_and_joins() {
        let intent = Intent::read(None, &with_participants(&["a"]), &with_participants(&["a", "b"]));
        assert_eq!((intent.node, intent.wish), (Some(node("b")), Wish::Join));
        assert_eq!(intent.clock, Some(stamp(5)));
    }

    #[test]
    fn a_writer_is_not_blamed_for_those_it_believes_dead() {
        let known = node("a");
        let intent = Intent::read(Some(&known), &with_participants(&["a", "b"]), &with_participants(&["a"]));
        assert_eq!(intent.wish, Wish::Nothing);
    }

    #[test]
    fn leaving_waiting_and_closing_are_told_apart() {
        let a = node("a");
        let (inside, outside) = (with_participants(&["a"]), RendezvousState::default());
        assert_eq!(Intent::read(Some(&a), &inside, &outside).wish, Wish::Leave);

        let mut waiting = RendezvousState::default();
        waiting.wait_list.insert(a.clone());
        assert_eq!(Intent::read(Some(&a), &outside, &waiting).wish, Wish::Join);
        assert_eq!(Intent::read(Some(&a), &waiting, &inside).wish, Wish::Join);

        let closed = RendezvousState { closed: true, ..inside.clone() };
        let intent = Intent::read(Some(&a), &inside, &closed);
        assert_eq!((intent.wish, intent.close), (Wish::Nothing, true));
    }

    #[test]
    fn a_heartbeat_tells_the_writers_clock() {
        let mut later = with_participants(&["a"]);
        later.last_heartbeats[0].1 = stamp(9);
        let intent = Intent::read(Some(&node("a")), &with_participants(&["a"]), &later);
        assert_eq!((intent.wish, intent.clock), (Wish::Nothing, Some(stamp(9))));
    }
}
