//! Reads one chunk: checks its checksum and finds the requested records.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use super::chunk_cache::{CachedChunk, STRIDE};
use super::flaw::{Flaw, Unread};
use super::header::{Compressor, Header};
use super::index::Chunk;
use super::payload::{Payload, Stop};
use crate::read_at::ReadAt;

/// The largest decompressed size of a gzip chunk, which is held in memory. Writers use up to 32 MiB.
const MOST_UNPACKED: u64 = 256 << 20;
/// Bytes of a payload per checksum step.
const PIECE: usize = 1 << 18;

/// Checks the checksum of a chunk that is not cached.
pub(super) fn verify(source: &dyn ReadAt, chunk: &Chunk) -> Result<CachedChunk, Unread> {
    let Header { checksum: stored, compressor, size, .. } = chunk.header;
    let mut hasher = crc32fast::Hasher::new();
    let mut packed = Vec::new();
    let mut piece = vec![0; PIECE.min(size as usize)];
    let (mut at, end) = (chunk.payload(), chunk.end());
    while at < end {
        let length = (end - at).min(PIECE as u64) as usize;
        source.read_exact_at(&mut piece[..length], at)?;
        hasher.update(&piece[..length]);
        if compressor == Compressor::Gzip {
            packed.extend_from_slice(&piece[..length]);
        }
        at += length as u64;
    }
    let computed = hasher.finalize();
    if computed != stored {
        return Err(Flaw::Checksum { stored, computed }.into());
    }
    let unpacked = match compressor {
        Compressor::None | Compressor::Snappy => None,
        Compressor::Gzip => Some(unpack(&packed)?),
    };
    Ok(CachedChunk::new(chunk.header.records, unpacked))
}

/// Passes the records `wanted`, numbered within the chunk, to `sink`, and extends the cached marks.
///
/// # Errors
///
/// The first unreadable record of the chunk, requested or not, and why.
pub(super) fn read(
    source: &dyn ReadAt,
    chunk: &Chunk,
    known: &CachedChunk,
    wanted: Range<u32>,
    sink: &mut dyn FnMut(u32, &[u8]),
) -> Result<(), (u32, Unread)> {
    let (mut record, from) = known.nearest(wanted.start);
    let stopped = |record: u32, stop: Stop| (record, unread(record, stop));
    let mut payload = Payload::new(source, chunk, known.unpacked(), from).map_err(|stop| stopped(record, stop))?;
    let mut bytes = Vec::new();
    while record < wanted.end {
        if record.is_multiple_of(STRIDE) {
            known.add_mark(record, payload.mark());
        }
        let is_wanted = record >= wanted.start;
        read_or_skip(&mut payload, is_wanted, &mut bytes).map_err(|stop| stopped(record, stop))?;
        if record + 1 == chunk.header.records {
            check_end(&mut payload).map_err(|stop| stopped(record, stop))?;
        }
        if is_wanted {
            sink(record, &bytes);
        }
        record += 1;
    }
    Ok(())
}

/// Skips one record, or reads it if it is requested.
fn read_or_skip(payload: &mut Payload<'_>, is_wanted: bool, bytes: &mut Vec<u8>) -> Result<(), Stop> {
    bytes.clear();
    payload.read(4, bytes)?;
    let length = bytes.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    bytes.clear();
    if is_wanted { payload.read(length, bytes) } else { payload.skip(length) }
}

/// Checks that nothing follows the last record. The checksum does not cover the record count.
fn check_end(payload: &mut Payload<'_>) -> Result<(), Stop> {
    match payload.read(1, &mut Vec::new()) {
        Err(Stop::End) => Ok(()),
        Err(stop) => Err(stop),
        Ok(()) => Err(Stop::Flaw(Flaw::TooMany)),
    }
}

fn unread(record: u32, stop: Stop) -> Unread {
    match stop {
        Stop::End => Flaw::TooFew { record }.into(),
        Stop::Flaw(flaw) => flaw.into(),
        Stop::Io(error) => error.into(),
    }
}

fn unpack(packed: &[u8]) -> Result<Arc<[u8]>, Unread> {
    let mut bytes = Vec::new();
    let read = MultiGzDecoder::new(packed).take(MOST_UNPACKED + 1).read_to_end(&mut bytes);
    read.map_err(|error: io::Error| Flaw::Compressed(error.to_string()))?;
    if bytes.len() as u64 > MOST_UNPACKED {
        return Err(Flaw::TooLarge { limit: MOST_UNPACKED }.into());
    }
    Ok(bytes.into())
}
