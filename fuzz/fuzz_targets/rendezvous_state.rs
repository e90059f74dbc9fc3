//! Any pickle is a rendezvous state or a refusal, never a panic; a state reads back as it was written.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flexor_store::state::{SharedHead, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pickle: &[u8]| {
    let Ok(state) = decode(STANDARD.encode(pickle).as_bytes()) else { return };
    let head = SharedHead::new(state.round, state.complete, state.deadline, state.closed, &state.participants);
    let wait_list: Vec<_> = state.wait_list.iter().cloned().collect();
    let redundancy_list: Vec<_> = state.redundancy_list.iter().cloned().collect();
    let (head, tail) = head.with_tail(&wait_list, &redundancy_list, &state.last_heartbeats);
    assert_eq!(decode(&encode(&state)).as_ref(), Ok(&state));
    assert_eq!(decode(&[head, tail].concat()), Ok(state));
});
