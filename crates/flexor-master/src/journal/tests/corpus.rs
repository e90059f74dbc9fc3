//! The checked-in inputs of the fuzz target `journal` fulfil its claim.

use super::*;
use crate::journal::Segment;

#[test]
fn any_bytes_are_a_segment_that_can_be_written_again_or_are_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/journal");
    let inputs: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    for input in inputs {
        let bytes = std::fs::read(&input).unwrap();
        let Ok(read) = Segment::read(&bytes) else { continue };
        let held = read.snapshot.iter().chain(&read.facts).map(Vec::len).sum::<usize>();
        assert!(held <= bytes.len(), "{}", input.display());
        let whole = Segment { bad_tail: None, ..read };
        assert_eq!(Segment::read(&whole.to_bytes()), Ok(whole), "{}", input.display());
    }
}
