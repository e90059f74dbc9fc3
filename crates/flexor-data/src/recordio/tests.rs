//! RecordIO files of all kinds: ours and those of the original, intact and damaged.

mod corpus;
mod damage;
mod ranges;
mod writer;

use std::io::Write;
use std::ops::Range;

use super::*;

/// A reader with its cache.
pub(super) struct Memory(ChunkCache);

impl Memory {
    fn new() -> Self {
        Self(ChunkCache::new(1 << 20))
    }

    /// Reads a range of records.
    fn read(&self, file: &[u8], range: Range<u64>) -> Result<Vec<Vec<u8>>, ReadError> {
        let index = index(file);
        let mut records = Vec::new();
        let first = range.start;
        index.read(&file, (&self.0, FileKey(0)), range, &mut |number, bytes| {
            assert_eq!(number, first + records.len() as u64);
            records.push(bytes.to_vec());
        })?;
        Ok(records)
    }
}

/// The index of a file.
fn index(file: &[u8]) -> Index {
    Index::of(&file).unwrap()
}

/// Reads all records of a file.
fn read_all(file: &[u8]) -> Result<Vec<Vec<u8>>, ReadError> {
    Memory::new().read(file, 0..index(file).records())
}

/// A file as Flexor writes it.
fn ours(records: &[Vec<u8>], compressor: Compressor, chunk_limit: u32) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), WriterOptions { compressor, chunk_limit });
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap().0
}

/// One chunk as the original writes it: a frame for each length, and one or more for each record.
fn original(records: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = snap::write::FrameEncoder::new(Vec::new());
    for record in records {
        for part in [&(record.len() as u32).to_le_bytes()[..], record] {
            encoder.write_all(part).unwrap();
            encoder.flush().unwrap();
        }
    }
    chunk(Compressor::Snappy, records.len() as u32, &encoder.into_inner().unwrap())
}

/// A chunk with this payload, valid or not.
fn chunk(compressor: Compressor, records: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header { checksum: crc32fast::hash(payload), compressor, size: payload.len() as u32, records };
    [&header.to_bytes(), payload].concat()
}

/// Records of many lengths: empty, repetitive and random ones.
fn assorted(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| match number % 5 {
            0 => Vec::new(),
            1 => vec![number as u8; 3000],
            2 => format!("record {number}").into_bytes(),
            3 => (0..700_u32)
                .map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(number as u32) >> 13) as u8)
                .collect(),
            _ => vec![7; number % 90],
        })
        .collect()
}

const COMPRESSORS: [Compressor; 3] = [Compressor::None, Compressor::Snappy, Compressor::Gzip];
