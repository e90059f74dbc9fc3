//! Any range of any file has its records, whatever was read before.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::read_at::ReadAt;

proptest! {
    #[test]
    fn ranges_of_files_that_we_write_are_what_was_written(
        count in 0_usize..300,
        which in 0_usize..3,
        limit in 3_001_u32..100_000,
        cuts in prop::collection::vec((0_usize..300, 0_usize..300), 1..8),
    ) {
        let records = assorted(count);
        let file = ours(&records, COMPRESSORS[which], limit);
        let memory = Memory::new();
        for (a, b) in cuts {
            let (start, end) = (a.min(b).min(count), a.max(b).min(count));
            prop_assert_eq!(&memory.read(&file, start as u64..end as u64).unwrap(), &records[start..end]);
        }
    }

    #[test]
    fn ranges_of_files_of_the_original_are_what_was_written(
        count in 1_usize..200,
        cuts in prop::collection::vec((0_usize..400, 0_usize..400), 1..8),
    ) {
        let records = assorted(2 * count);
        let file = [original(&records[..count]), original(&records[count..])].concat();
        let memory = Memory::new();
        for (a, b) in cuts {
            let (start, end) = (a.min(b).min(2 * count), a.max(b).min(2 * count));
            prop_assert_eq!(&memory.read(&file, start as u64..end as u64).unwrap(), &records[start..end]);
        }
    }
}

#[test]
fn records_longer_than_a_frame_are_put_together() {
    let records: Vec<Vec<u8>> = [0, 65_535, 65_536, 65_537, 200_000].map(|length| vec![length as u8; length]).to_vec();
    assert_eq!(read_all(&original(&records)).unwrap(), records);
    assert_eq!(read_all(&ours(&records, Compressor::Snappy, DEFAULT_CHUNK_LIMIT)).unwrap(), records);
}

#[test]
fn a_length_that_is_cut_by_a_frame_is_put_together() {
    let mut encoder = snap::write::FrameEncoder::new(Vec::new());
    for piece in [&[3, 0][..], &[0], &[0, b'a', b'b'], &[b'c', 1, 0, 0, 0], b"d"] {
        encoder.write_all(piece).unwrap();
        encoder.flush().unwrap();
    }
    let file = chunk(Compressor::Snappy, 2, &encoder.into_inner().unwrap());
    assert_eq!(read_all(&file).unwrap(), [b"abc".to_vec(), b"d".to_vec()]);
}

#[test]
fn empty_frames_are_skipped() {
    let whole = original(&[b"one".to_vec()]);
    let (identifier, frames) = whole[Header::LENGTH..].split_at(10);
    let padding = [0xfe, 3, 0, 0, 0, 0, 0];
    let payload = [identifier, &padding, identifier, frames, &padding].concat();
    assert_eq!(read_all(&chunk(Compressor::Snappy, 1, &payload)).unwrap(), [b"one".to_vec()]);
}

#[test]
fn chunks_without_records_are_skipped() {
    // Its checksum would be 0.
    let header = Header { checksum: 7, compressor: Compressor::None, size: 0, records: 0 };
    let empty = header.to_bytes();
    let one = ours(&[b"one".to_vec()], Compressor::Gzip, 100);
    let file = [&empty[..], &one, &empty, &empty, &one, &empty].concat();
    assert_eq!(Memory::new().read(&file, 1..2).unwrap(), [b"one".to_vec()]);
    assert_eq!(read_all(&file).unwrap().len(), 2);
}

/// Counts what is read.
struct Counted<'a>(&'a [u8], AtomicU64);

impl ReadAt for Counted<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.0.read_exact_at(buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

#[test]
fn a_small_range_of_a_cached_chunk_is_a_small_read() {
    let records: Vec<Vec<u8>> = (0..4096_u32)
        .map(|number| (0..3174_u32).map(|at| ((at ^ number).wrapping_mul(at) >> 7) as u8).collect())
        .collect();
    for file in [original(&records), ours(&records, Compressor::Snappy, DEFAULT_CHUNK_LIMIT)] {
        let counted = Counted(&file, AtomicU64::new(0));
        let index = Index::of(&counted).unwrap();
        let chunks = ChunkCache::new(1 << 20);
        let read = |range: Range<u64>| {
            counted.1.store(0, Ordering::Relaxed);
            let mut found = 0;
            index.read(&counted, (&chunks, FileKey(0)), range, &mut |_, _| found += 1).unwrap();
            assert_eq!(found, 64);
            counted.1.load(Ordering::Relaxed)
        };
        assert!(read(4000..4064) >= file.len() as u64, "the checksum is of the whole chunk");
        let later = [0, 1000, 4032].map(|first| read(first..first + 64));
        assert!(later.iter().all(|bytes| *bytes < 600_000), "{later:?} of {}", file.len());
    }
}
