//! Any bytes are a journal segment or refused, and what was read of one can be written and read again.
#![no_main]

use flexor_master::journal::Segment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = Segment::read(bytes) {
        let held = read.snapshot.iter().chain(&read.facts).map(Vec::len).sum::<usize>();
        assert!(held <= bytes.len());
        let whole = Segment { bad_tail: None, ..read };
        assert_eq!(Segment::read(&whole.to_bytes()), Ok(whole));
    }
});
