//! The checked-in inputs of the fuzz target `recordio` fulfil its claim.

use std::path::{Path, PathBuf};

use super::*;

#[test]
fn any_bytes_are_read_as_far_as_they_go_and_any_two_ways_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recordio");
    let inputs: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    for input in inputs {
        let bytes = std::fs::read(&input).unwrap();
        let records = index(&bytes).records().min(10_000);
        let memory = Memory::new();
        for number in (0..records).rev() {
            let alone = memory.read(&bytes, number..number + 1).ok();
            let fresh = Memory::new().read(&bytes, number..number + 1).ok();
            assert_eq!(alone, fresh, "record {number} of {}", input.display());
        }
    }
}
