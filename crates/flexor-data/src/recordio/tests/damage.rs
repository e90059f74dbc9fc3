//! Damaged files.

use super::*;

fn flaw(error: ReadError) -> Flaw {
    match error.cause {
        Unread::Flaw(flaw) => flaw,
        Unread::Io(error) => panic!("the file could not be read: {error}"),
    }
}

#[test]
fn a_flipped_bit_is_found_in_the_chunk_where_it_is_and_nowhere_else() {
    for compressor in COMPRESSORS {
        let records = assorted(30);
        let mut file = ours(&records, compressor, 5000);
        let chunks = index(&file).chunks().to_vec();
        let bad = &chunks[2];
        file[bad.offset as usize + Header::LENGTH + 9] ^= 4;
        let memory = Memory::new();
        let before = memory.read(&file, 0..bad.first).unwrap();
        assert_eq!(before, records[..bad.first as usize]);
        let error = memory.read(&file, 0..30).unwrap_err();
        assert_eq!((error.offset, error.from, error.lost.clone()), (bad.offset, bad.first, bad.records()));
        assert!(matches!(flaw(error), Flaw::Checksum { .. }));
        let behind = bad.records().end;
        assert_eq!(memory.read(&file, behind..30).unwrap(), records[behind as usize..]);
    }
}

#[test]
fn a_truncated_file_is_known_before_records_are_read() {
    let records = assorted(30);
    let file = ours(&records, Compressor::Snappy, 5000);
    let last = index(&file).chunks().last().unwrap().clone();
    let cut = &file[..file.len() - 7];
    let found = index(cut);
    assert_eq!(found.records(), 30, "the records keep their numbers");
    assert_eq!(found.chunks().last().unwrap().flaw, Some(Flaw::CutShort { missing: 7 }));
    let error = Memory::new().read(cut, last.first..30).unwrap_err();
    assert_eq!((error.offset, error.from), (last.offset, last.first));

    let inside_header = &file[..last.offset as usize + 11];
    let found = index(inside_header);
    assert_eq!(found.records(), last.first);
    let lost = Lost { offset: last.offset, bytes: 11, flaw: Flaw::CutShort { missing: 9 } };
    assert_eq!(found.lost(), Some(&lost));
}

#[test]
fn bytes_that_are_no_chunk_hide_everything_behind_them() {
    let one = ours(&[b"one".to_vec()], Compressor::None, 100);
    let mut file = [&one[..], &one, &one].concat();
    file[one.len()] = 0;
    let found = index(&file);
    let lost = found.lost().unwrap();
    assert_eq!((found.records(), lost.offset, lost.bytes), (1, one.len() as u64, 2 * one.len() as u64));
    assert!(matches!(lost.flaw, Flaw::Magic { found: 0x0102_0300 }));
}

#[test]
fn impossible_sizes_allocate_nothing() {
    let whole = [&(u32::MAX - 8).to_le_bytes()[..], b"abc"].concat();
    let error = read_all(&chunk(Compressor::None, 1, &whole)).unwrap_err();
    assert_eq!(flaw(error), Flaw::TooFew { record: 0 });

    let header = Header { checksum: 0, compressor: Compressor::Gzip, size: u32::MAX, records: u32::MAX };
    let found = index(&header.to_bytes());
    assert_eq!(found.chunks()[0].flaw, Some(Flaw::CutShort { missing: u64::from(u32::MAX) }));

    // A frame with a decompressed size of 4 GiB, and one of 16 MiB.
    for frame in [&[0, 9, 0, 0, 1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff, 0xf][..], &[0, 0xff, 0xff, 0xff, 1, 2, 3]] {
        let payload = [b"\xff\x06\x00\x00sNaPpY", frame].concat();
        let error = read_all(&chunk(Compressor::Snappy, 1, &payload)).unwrap_err();
        assert!(matches!(flaw(error), Flaw::Compressed(_)));
    }
}

#[test]
fn a_chunk_with_fewer_records_than_it_says_gives_those_it_has() {
    for compressor in COMPRESSORS {
        let one = ours(&[b"one".to_vec(), b"two".to_vec()], compressor, 100);
        let file = chunk(compressor, 3, &one[Header::LENGTH..]);
        let error = read_all(&file).unwrap_err();
        assert_eq!((error.from, flaw(error)), (2, Flaw::TooFew { record: 2 }));
        assert_eq!(Memory::new().read(&file, 0..2).unwrap().len(), 2);
    }
}

#[test]
fn a_chunk_with_more_records_than_it_says_is_damaged() {
    for compressor in COMPRESSORS {
        let three = ours(&[b"one".to_vec(), b"two".to_vec(), b"three".to_vec()], compressor, 100);
        let file = chunk(compressor, 2, &three[Header::LENGTH..]);
        let error = read_all(&file).unwrap_err();
        assert_eq!((error.from, flaw(error)), (1, Flaw::TooMany));
        assert_eq!(Memory::new().read(&file, 0..1).unwrap().len(), 1);
    }
}

#[test]
fn broken_frames_are_named() {
    let good = original(&[b"one".to_vec()])[Header::LENGTH..].to_vec();
    let with = |change: fn(&mut Vec<u8>)| {
        let mut payload = good.clone();
        change(&mut payload);
        flaw(read_all(&chunk(Compressor::Snappy, 1, &payload)).unwrap_err()).to_string()
    };
    let wrong_checksum = with(|payload| payload[14] ^= 1);
    assert!(wrong_checksum.contains("the checksum of the frame at byte 10 of the payload"), "{wrong_checksum}");
    let no_identifier = with(|payload| drop(payload.drain(..10)));
    assert!(no_identifier.contains("does not begin with snappy's stream identifier"), "{no_identifier}");
    let other_kind = with(|payload| payload[10] = 0x42);
    assert!(other_kind.contains("of the kind 0x42"), "{other_kind}");
    let gzip = flaw(read_all(&chunk(Compressor::Gzip, 1, b"no gzip at all")).unwrap_err()).to_string();
    assert!(gzip.starts_with("the compressed data is broken"), "{gzip}");
}

/// A gzip member of zeros, again and again: a quarter of a megabyte that unpacks to more than is ever held in memory.
#[test]
fn a_gzip_chunk_that_grows_without_end_is_damaged() {
    const MEMBER: usize = 1 << 20;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![0; MEMBER]).unwrap();
    let member = encoder.finish().unwrap();
    let limit: u64 = 256 << 20;
    let bomb = chunk(Compressor::Gzip, 1, &member.repeat(limit as usize / MEMBER + 1));
    assert!(bomb.len() < MEMBER, "{} bytes", bomb.len());
    let error = read_all(&bomb).unwrap_err();
    assert_eq!((error.from, flaw(error)), (0, Flaw::TooLarge { limit }));

    // What follows it is read.
    let file = [bomb, ours(&[b"one".to_vec()], Compressor::Gzip, 100)].concat();
    assert_eq!(Memory::new().read(&file, 1..2).unwrap(), [b"one".to_vec()]);
}
