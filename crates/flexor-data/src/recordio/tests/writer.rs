//! The written bytes.

use super::*;

#[test]
fn a_file_is_what_its_format_says_byte_by_byte() {
    let file = ours(&[b"ab".to_vec(), Vec::new(), b"c".to_vec()], Compressor::None, 100);
    let payload = [2, 0, 0, 0, b'a', b'b', 0, 0, 0, 0, 1, 0, 0, 0, b'c'];
    let checksum = crc32fast::hash(&payload).to_le_bytes();
    let expected = [&[4, 3, 2, 1], &checksum[..], &[0, 0, 0, 0], &[15, 0, 0, 0], &[3, 0, 0, 0], &payload].concat();
    assert_eq!(file, expected);
}

#[test]
fn no_records_are_no_bytes() {
    assert_eq!(ours(&[], Compressor::Snappy, 100), [0_u8; 0]);
    assert_eq!(read_all(&[]).unwrap(), [[0_u8; 0]; 0]);
}

#[test]
fn snappy_is_framed_and_its_frames_are_filled() {
    let file = ours(&vec![vec![9; 100]; 2000], Compressor::Snappy, DEFAULT_CHUNK_LIMIT);
    let payload = &file[Header::LENGTH..];
    assert_eq!(payload[..10], *b"\xff\x06\x00\x00sNaPpY");
    // 208,000 bytes in frames of 65,536.
    let mut frames = 0;
    let mut at = 10;
    while at < payload.len() {
        at += 4 + u32::from_le_bytes([payload[at + 1], payload[at + 2], payload[at + 3], 0]) as usize;
        frames += 1;
    }
    assert_eq!((at, frames), (payload.len(), 4));
}

#[test]
fn a_chunk_is_full_when_its_records_reach_32_mib_and_their_lengths_do_not_count() {
    let file = ours(&vec![vec![1; 3200]; 12_000], Compressor::Snappy, DEFAULT_CHUNK_LIMIT);
    let found = index(&file);
    assert_eq!(found.chunks().iter().map(|chunk| chunk.header.records).collect::<Vec<_>>(), [10_485, 1_515]);
}

#[test]
fn a_record_that_fits_into_no_chunk_is_refused_and_the_others_are_kept() {
    let mut writer = Writer::new(Vec::new(), WriterOptions { compressor: Compressor::None, chunk_limit: 10 });
    writer.write(b"first").unwrap();
    let error = writer.write(&[0; 10]).unwrap_err();
    assert!(error.to_string().starts_with("a record of 10 bytes does not fit into a chunk of 10"), "{error}");
    writer.write(b"last").unwrap();
    let (file, written) = writer.finish().unwrap();
    assert_eq!(read_all(&file).unwrap(), [b"first".to_vec(), b"last".to_vec()]);
    assert_eq!(written, Written { records: 2, chunks: 1, bytes: file.len() as u64 });
}
