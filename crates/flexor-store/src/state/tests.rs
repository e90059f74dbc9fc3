//! States of a known shape, and round trips within this crate.

mod corpus;
mod fixtures;
mod hostile;
mod properties;
mod python;
mod recorded;
#[path = "../../tests/recorded/transcript.rs"]
mod transcript;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// The state that `tests/peer.py` makes for a number of nodes.
fn known_state(nodes: u64) -> RendezvousState {
    const START: i64 = 1_700_000_000_000_000;
    let stamp = |micros| Stamp::from_unix_micros(micros).unwrap();
    let node = |name: &str, index: u64| NodeDesc {
        addr: format!("{name}-{index:03}.train.svc").into(),
        pid: 17 + 4093 * index,
        local_id: index % 3,
    };
    let participants: Vec<_> = (0..nodes).map(|index| (node("worker", index), nodes - 1 - index)).collect();
    let wait_list: BTreeSet<_> = (0..nodes / 8).map(|index| node("late", index)).collect();
    let redundancy_list: BTreeSet<_> = (0..nodes / 16).map(|index| node("spare", index)).collect();
    let alive = participants.iter().map(|(node, _)| node).chain(&wait_list).chain(&redundancy_list);
    let last_heartbeats =
        alive.cloned().enumerate().map(|(index, node)| (node, stamp(START + 1_000_001 * index as i64)));
    RendezvousState {
        round: nodes,
        complete: nodes > 1,
        deadline: (nodes > 0).then(|| stamp(START + 30_000_000)),
        closed: nodes == 64,
        last_heartbeats: last_heartbeats.collect(),
        participants,
        wait_list,
        redundancy_list,
    }
}

/// The value for one reader that may see all of `state`.
fn encode_in_two_pieces(state: &RendezvousState) -> Vec<u8> {
    let head = SharedHead::new(state.round, state.complete, state.deadline, state.closed, &state.participants);
    let (wait_list, redundancy_list) = (state.wait_list.iter().cloned(), state.redundancy_list.iter().cloned());
    let (head, tail) =
        head.with_tail(&wait_list.collect::<Vec<_>>(), &redundancy_list.collect::<Vec<_>>(), &state.last_heartbeats);
    [head, tail].concat()
}

/// Decodes a pickle that is not yet base64.
fn decode_pickle(pickle: &[u8]) -> Result<RendezvousState, StateError> {
    decode(STANDARD.encode(pickle).as_bytes())
}

#[test]
fn an_encoded_state_decodes_to_itself() {
    for nodes in [0, 1, 2, 16, 64, 300, 2500] {
        let state = known_state(nodes);
        assert_eq!(decode(&encode(&state)).as_ref(), Ok(&state), "{nodes} nodes");
        assert_eq!(decode(&encode_in_two_pieces(&state)).as_ref(), Ok(&state), "{nodes} nodes");
    }
}

#[test]
fn heads_of_all_lengths_join_with_their_tails() {
    // One more character in an address is one more byte, so that all three paddings occur.
    for addr in ["a", "ab", "abc"] {
        let node = NodeDesc { addr: addr.into(), pid: 1, local_id: 0 };
        let head = SharedHead::new(3, true, None, false, &[(node.clone(), 0)]);
        let own = (node.clone(), Stamp::from_unix_micros(1).unwrap());
        let other = NodeDesc { addr: "other".into(), ..node.clone() };
        let (first, second) = head.with_tail(std::slice::from_ref(&other), &[], std::slice::from_ref(&own));
        assert!(first.len().is_multiple_of(4) && !first.ends_with(b"="));
        let read = decode(&[first, second].concat()).unwrap();
        assert_eq!(read.participants, [(node, 0)]);
        assert_eq!(read.wait_list, BTreeSet::from([other]));
        assert_eq!(read.last_heartbeats, [own]);
    }
}

#[test]
fn a_tail_of_one_heartbeat_is_short_however_large_the_round() {
    let state = known_state(2500);
    let head = SharedHead::new(state.round, true, state.deadline, false, &state.participants);
    let (first, second) = head.with_tail(&[], &[], &state.last_heartbeats[2000..2001]);
    assert!(first.len() > 100_000 && second.len() < 150, "{} and {}", first.len(), second.len());
}

#[test]
fn the_sentinel_is_not_a_state() {
    assert!(matches!(decode(SENTINEL), Err(StateError::NotPickle { .. })));
}
