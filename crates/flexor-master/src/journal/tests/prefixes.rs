//! Whatever happens to a segment's bytes, the reader returns a prefix of what was written, or refuses.

use flexor_model::Generation;
use proptest::prelude::*;

use super::*;
use crate::journal::{Header, Segment, Unreadable};

fn written(facts: Vec<Vec<u8>>) -> Segment {
    let header = Header { generation: Generation(3), job: job() };
    Segment { header, snapshot: Some(b"the state".to_vec()), facts, bad_tail: None }
}

/// `read` equals what was written without some facts at the end, or without everything.
fn assert_prefix(read: &Segment, written: &Segment) {
    assert_eq!(read.header, written.header);
    match &read.snapshot {
        Some(_) => assert_eq!(read.snapshot, written.snapshot),
        None => assert!(read.facts.is_empty()),
    }
    assert!(written.facts.starts_with(&read.facts));
}

fn small() -> Segment {
    written(vec![b"one".to_vec(), vec![], b"three".to_vec(), vec![0; 20]])
}

#[test]
fn a_segment_reads_back() {
    assert_eq!(Segment::read(&small().to_bytes()), Ok(small()));
}

#[test]
fn a_segment_cut_at_any_byte_is_a_prefix() {
    let (segment, bytes) = (small(), small().to_bytes());
    let header = segment.header.to_bytes().len();
    let mut facts_read = 0;
    for length in 0..bytes.len() {
        match Segment::read(&bytes[..length]) {
            Ok(read) => {
                assert_prefix(&read, &segment);
                assert!(read.facts.len() >= facts_read, "a longer file never holds less");
                facts_read = read.facts.len();
                let end = read.bad_tail.map_or(length as u64, |tail| tail.offset + tail.bytes);
                assert_eq!(end, length as u64);
            }
            Err(unreadable) => {
                assert_eq!(unreadable, Unreadable::Unfinished);
                assert!(length < header);
            }
        }
    }
    assert_eq!(facts_read, segment.facts.len() - 1);
}

#[test]
fn every_changed_bit_is_noticed() {
    let (segment, bytes) = (small(), small().to_bytes());
    let header = segment.header.to_bytes().len() as u64;
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        match Segment::read(&changed) {
            Ok(read) => {
                assert_prefix(&read, &segment);
                let tail = read.bad_tail.unwrap();
                assert!(tail.offset <= (bit / 8) as u64, "bit {bit}");
                assert!(read.snapshot.is_some(), "bit {bit}: a bad snapshot in front of facts is damage");
                assert_eq!(tail.records_follow, read.facts.len() < segment.facts.len() - 1, "bit {bit}");
                let behind = &segment.facts[read.facts.len() + 1..];
                assert_eq!(tail.facts_behind, behind, "bit {bit}: all facts behind the bad one are found");
            }
            Err(unreadable) => {
                assert!(matches!(unreadable, Unreadable::Damaged { offset } if offset == 0 || offset == header));
            }
        }
    }
}

#[test]
fn a_power_cut_that_leaves_zeros_is_a_cut() {
    let mut bytes = small().to_bytes();
    let end = bytes.len() as u64;
    bytes.extend([0; 4096]);
    let read = Segment::read(&bytes).unwrap();
    assert_eq!(read.facts, small().facts);
    assert_eq!(read.bad_tail.map(|tail| (tail.offset, tail.bytes, tail.records_follow)), Some((end, 4096, false)));
}

fn facts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20)
}

proptest! {
    #[test]
    fn any_segment_reads_back_and_any_cut_of_it_is_a_prefix(facts in facts(), cut in any::<prop::sample::Index>()) {
        let segment = written(facts);
        let bytes = segment.to_bytes();
        prop_assert_eq!(Segment::read(&bytes), Ok(segment.clone()));
        if let Ok(read) = Segment::read(&bytes[..cut.index(bytes.len())]) {
            assert_prefix(&read, &segment);
        }
    }

    #[test]
    fn any_overwritten_piece_leaves_a_prefix_or_is_refused(
        facts in facts(),
        at in any::<prop::sample::Index>(),
        piece in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        let segment = written(facts);
        let mut bytes = segment.to_bytes();
        let at = at.index(bytes.len());
        let end = (at + piece.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&piece[..end - at]);
        if let Ok(read) = Segment::read(&bytes) {
            assert_prefix(&read, &segment);
        }
    }
}
