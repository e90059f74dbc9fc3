//! Checked-in values that Python wrote: the states that torchrun's agents put into the store.
//!
//! `python3 tests/peer.py fixtures FOLDER` makes them again. The larger ones need wide memo indices
//! and wide ints.

use super::*;

const RECORDED: [(u64, &[u8], &[u8]); 6] = [
    (0, include_bytes!("../fixtures/0.protocol4"), include_bytes!("../fixtures/0.protocol5")),
    (1, include_bytes!("../fixtures/1.protocol4"), include_bytes!("../fixtures/1.protocol5")),
    (2, include_bytes!("../fixtures/2.protocol4"), include_bytes!("../fixtures/2.protocol5")),
    (16, include_bytes!("../fixtures/16.protocol4"), include_bytes!("../fixtures/16.protocol5")),
    (64, include_bytes!("../fixtures/64.protocol4"), include_bytes!("../fixtures/64.protocol5")),
    (300, include_bytes!("../fixtures/300.protocol4"), include_bytes!("../fixtures/300.protocol5")),
];

#[test]
fn recorded_values_are_read_in_both_protocols() {
    for (nodes, protocol4, protocol5) in RECORDED {
        for value in [protocol4, protocol5] {
            let state = decode(value.trim_ascii()).unwrap();
            assert_eq!(state, known_state(nodes), "{nodes} nodes");
            assert_eq!(decode(&encode(&state)), Ok(state), "{nodes} nodes");
        }
    }
}

#[test]
fn we_write_no_more_than_python_does() {
    for (nodes, protocol4, _) in RECORDED {
        let (ours, python) = (encode(&known_state(nodes)).len(), protocol4.trim_ascii().len());
        assert!(ours <= python, "{nodes} nodes: {ours} and {python} bytes");
    }
}

#[test]
fn a_value_that_was_cut_off_anywhere_is_refused() {
    let (_, value, _) = RECORDED[2];
    let pickle = STANDARD.decode(value.trim_ascii()).unwrap();
    for length in 0..pickle.len() {
        let refused = decode_pickle(&pickle[..length]).unwrap_err();
        let expected = matches!(refused, StateError::NotPickle { .. } | StateError::CutOff { .. });
        assert!(expected, "{length} bytes: {refused}");
    }
    for length in 0..value.len() - 1 {
        assert!(decode(&value[..length]).is_err(), "{length} bytes of base64");
    }
}

#[test]
fn a_value_with_a_wrong_bit_is_refused_or_another_state() {
    let (_, value, _) = RECORDED[2];
    let pickle = STANDARD.decode(value.trim_ascii()).unwrap();
    for bit in 0..8 * pickle.len() {
        let mut pickle = pickle.clone();
        pickle[bit / 8] ^= 1 << (bit % 8);
        if let Ok(state) = decode_pickle(&pickle) {
            assert_eq!(decode(&encode(&state)), Ok(state), "bit {bit}");
        }
    }
}
