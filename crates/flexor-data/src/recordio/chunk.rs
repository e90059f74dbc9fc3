//! One chunk: its checksum, and the way to the records that are wanted.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use super::chunks::{Known, STRIDE};
use super::flaw::{Flaw, Unread};
use super::header::{Compressor, Header};
use super::index::Chunk;
use super::payload::{Payload, Stop};
use crate::read_at::ReadAt;

/// The most that a chunk of gzip may decompress to, all of which is held in memory. A writer's limit is 32 MiB.
const MOST_UNPACKED: u64 = 1 << 30;
/// How much of a payload is checksummed at once.
const PIECE: usize = 1 << 18;

/// What is known about a chunk that nobody has touched: its checksum is right.
pub(super) fn verify(source: &dyn ReadAt, chunk: &Chunk) -> Result<Known, Unread> {
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
    Ok(Known::new(chunk.header.records, unpacked))
}

/// Hands on the records `wanted` of a chunk, counted from its beginning, and adds to what is known about it.
///
/// # Errors
///
/// The first record of the chunk that cannot be had, whether it is wanted or not, and why.
pub(super) fn read(
    source: &dyn ReadAt,
    chunk: &Chunk,
    known: &Known,
    wanted: Range<u32>,
    sink: &mut dyn FnMut(u32, &[u8]),
) -> Result<(), (u32, Unread)> {
    let (mut record, from) = known.nearest(wanted.start);
    let stopped = |record: u32, stop: Stop| (record, unread(record, stop));
    let mut payload = Payload::new(source, chunk, known.unpacked(), from).map_err(|stop| stopped(record, stop))?;
    let mut bytes = Vec::new();
    while record < wanted.end {
        if record.is_multiple_of(STRIDE) {
            known.learn(record, payload.mark());
        }
        let is_wanted = record >= wanted.start;
        pass(&mut payload, is_wanted, &mut bytes).map_err(|stop| stopped(record, stop))?;
        if record + 1 == chunk.header.records {
            is_over(&mut payload).map_err(|stop| stopped(record, stop))?;
        }
        if is_wanted {
            sink(record, &bytes);
        }
        record += 1;
    }
    Ok(())
}

/// Goes past one record; its bytes are read only if they are wanted.
fn pass(payload: &mut Payload<'_>, is_wanted: bool, bytes: &mut Vec<u8>) -> Result<(), Stop> {
    bytes.clear();
    payload.read(4, bytes)?;
    let length = bytes.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    bytes.clear();
    if is_wanted { payload.read(length, bytes) } else { payload.skip(length) }
}

/// Nothing follows the last record: the count is not part of what is checksummed.
fn is_over(payload: &mut Payload<'_>) -> Result<(), Stop> {
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
