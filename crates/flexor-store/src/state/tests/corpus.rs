//! The checked-in inputs of the fuzz target `rendezvous_state`, checked against its claims.

use std::path::Path;

use super::*;

#[test]
fn accepted_inputs_of_the_corpus_round_trip() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/rendezvous_state");
    let mut accepted = 0;
    for input in folder.read_dir().unwrap() {
        let input = input.unwrap().path();
        // Printed only if the test fails.
        println!("{}", input.display());
        if let Ok(state) = decode_pickle(&std::fs::read(&input).unwrap()) {
            accepted += 1;
            assert_eq!(decode(&encode(&state)), Ok(state));
        }
    }
    assert!(accepted > 0, "no input of {} is a state", folder.display());
}
