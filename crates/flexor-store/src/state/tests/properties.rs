//! Any state round-trips.

use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;

use super::*;

fn ints() -> impl Strategy<Value = u64> {
    // Around the values at which the instruction for an int changes.
    let edges = vec![0xff, 0x100, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, i64::MAX as u64, 1 << 63, u64::MAX];
    prop_oneof![0..5000u64, any::<u64>(), prop::sample::select(edges)]
}

fn stamps() -> impl Strategy<Value = Stamp> {
    let micros = Stamp::MIN.unix_micros()..=Stamp::MAX.unix_micros();
    let zone = prop::sample::select(vec![Zone::Utc, Zone::Unsaid]);
    (micros, zone).prop_map(|(micros, zone)| Stamp::from_unix_micros(micros).unwrap().in_zone(zone))
}

fn nodes() -> impl Strategy<Value = NodeDesc> {
    let addr = prop_oneof![4 => "[a-z]{1,3}", 4 => "[a-z0-9.:-]{0,40}", 1 => any::<String>(), 1 => "[a-z]{250,300}"];
    (addr, ints(), ints()).prop_map(|(addr, pid, local_id)| NodeDesc { addr: addr.into(), pid, local_id })
}

pub(super) fn states() -> impl Strategy<Value = RendezvousState> {
    let participants = btree_map(nodes(), ints(), 0..40).prop_map(|map| map.into_iter().collect::<Vec<_>>());
    (
        (ints(), any::<bool>(), prop::option::of(stamps()), any::<bool>()),
        participants.prop_shuffle(),
        btree_set(nodes(), 0..5),
        btree_set(nodes(), 0..5),
        btree_map(nodes(), stamps(), 0..5),
        prop::collection::vec(stamps(), 40),
    )
        .prop_map(
            |((round, complete, deadline, closed), participants, wait_list, redundancy_list, others, stamps)| {
                let known = participants.iter().map(|(node, _)| node.clone()).zip(stamps);
                let others = others.into_iter().filter(|(node, _)| participants.iter().all(|(known, _)| known != node));
                let last_heartbeats = known.chain(others).collect();
                RendezvousState {
                    round,
                    complete,
                    deadline,
                    closed,
                    participants,
                    wait_list,
                    redundancy_list,
                    last_heartbeats,
                }
            },
        )
}

proptest! {
    #[test]
    fn any_state_reads_back_as_it_was_written(state in states()) {
        prop_assert_eq!(decode(&encode(&state)), Ok(state.clone()));
        prop_assert_eq!(decode(&encode_in_two_pieces(&state)), Ok(state));
    }

    #[test]
    fn any_bytes_are_a_state_or_a_refusal(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut pickle = vec![0x80, 4];
        pickle.extend(bytes);
        if let Err(refused) = decode_pickle(&pickle) {
            prop_assert!(!refused.to_string().is_empty());
        }
    }
}
